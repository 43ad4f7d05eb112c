// Calls for pages of memory that only Linux has. A huge page needs one page fault instead of 512, and page faults take
// a large part of the time to read into fresh memory.
#include "os/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "os/descriptor.h"

namespace safetensors::os {
namespace {

// Returns an empty text if the file cannot be read. A longer file is cut.
std::string read_text(const std::string& path) {
  char text[4096];
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t size = file.valid() ? ::read(file.get(), text, sizeof text) : 0;
  return {text, static_cast<std::size_t>(std::max(size, ssize_t{0}))};
}

}  // namespace

// Each group above the group of the process may have a limit, too. A process in a container may see a path that its own
// /sys does not have. Then the root is the group of the container.
std::uint64_t memory_size() {
  struct sysinfo info;
  if (::sysinfo(&info) != 0) return 0;
  std::uint64_t bytes = std::uint64_t{info.totalram} * info.mem_unit;
  std::string group = read_text("/proc/self/cgroup");  // "0::/user.slice"; groups of version 1 have other numbers
  group = group.starts_with("0::/") ? group.substr(3, group.find('\n') - 3) : std::string();
  while (true) {
    const std::string text = read_text("/sys/fs/cgroup" + group + "/memory.max");
    std::uint64_t limit = bytes;  // stays if the text is "max"
    (void)std::from_chars(text.data(), text.data() + text.size(), limit);
    bytes = std::min(bytes, limit);
    if (group.empty()) return bytes;
    group.resize(group.rfind('/'));
  }
}

bool fits_in_machine(std::uint64_t size) noexcept {
  struct sysinfo info;
  if (::sysinfo(&info) != 0) return true;
  return size <= (std::uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
}

// A kernel without huge pages refuses the advice. The memory is usable nevertheless.
void request_huge_pages(std::span<std::byte> pages) noexcept {
  (void)::madvise(pages.data(), pages.size(), MADV_HUGEPAGE);
}

// Measured for 512 MiB of small pages, processor time: reads that fault take 257 ms, and 228 ms after this call.
// Without the look at one page, the call would cost 22 ms for memory that is there already.
void provide_untouched(std::span<std::byte> memory) noexcept {
  constexpr std::size_t kWorthwhile = std::size_t{64} << 10;
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
  if (memory.size() < kWorthwhile) return;
  const std::size_t page = page_size();
  const std::size_t skipped = (page - reinterpret_cast<std::uintptr_t>(memory.data()) % page) % page;
  const std::size_t size = (memory.size() - skipped) / page * page;
  std::byte* const pages = memory.data() + skipped;
  unsigned char present = 1;
  if (::mincore(pages + size / page / 2 * page, page, &present) == 0 && (present & 1U) == 0)
    (void)::madvise(pages, size, kPopulateWrite);
}

void discard_pages(std::span<std::byte> pages) noexcept {
  (void)::madvise(pages.data(), pages.size(), MADV_DONTNEED);
}

}  // namespace safetensors::os
