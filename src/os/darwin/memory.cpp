// Calls for pages of memory that macOS has in a form of its own, or not at all: macOS gives no huge pages to ordinary
// memory.
#include "os/memory.h"

#include <sys/mman.h>
#include <sys/sysctl.h>

#include <cstdint>

namespace safetensors::os {

std::uint64_t memory_size() {
  std::uint64_t memory = 0;
  std::size_t length = sizeof memory;
  return ::sysctlbyname("hw.memsize", &memory, &length, nullptr, 0) == 0 ? memory : 0;
}

// macOS makes swap files as it needs them. Those that exist now count.
bool fits_in_machine(std::uint64_t size) noexcept {
  const std::uint64_t memory = memory_size();
  if (memory == 0) return true;
  xsw_usage swap{};
  std::size_t length = sizeof swap;
  if (::sysctlbyname("vm.swapusage", &swap, &length, nullptr, 0) != 0) swap = {};
  return size <= memory || size - memory <= swap.xsu_total;
}

void request_huge_pages(std::span<std::byte>) noexcept {}

// Maps new pages over the old ones: unlike on Linux, MADV_DONTNEED does not make them zero.
void discard_pages(std::span<std::byte> pages) noexcept {
  (void)::mmap(pages.data(), pages.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0);
}

}  // namespace safetensors::os
