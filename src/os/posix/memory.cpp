// Pages of memory: anonymous mappings, aligned to 2 MiB so that huge pages fit, and calls for mapped files.
//
// mmap() does not align to 2 MiB, so map_pages() maps 2 MiB too much and unmaps both ends. Such a mapping adjoins no
// other one. Mappings that need no alignment go to the addresses below the last of them, where the system makes one of
// both.
#include "os/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <limits>

namespace safetensors::os {
namespace {

// Rounds up to the page size of the system.
std::size_t whole_pages(std::size_t size) noexcept {
  const auto page = page_size();
  return (size + page - 1) / page * page;
}

constexpr std::size_t kMaxAdjoining = std::size_t{64} << 20;  // bytes; no process has 65,530 mappings of this size
std::atomic<std::uintptr_t> lowest{0};                        // where the last mapping of less begins; only a hint

void* map_anonymous(std::uintptr_t hint, std::size_t length) noexcept {
  auto* const wanted = reinterpret_cast<void*>(hint);  // NOLINT(performance-no-int-to-ptr)
  void* const address = ::mmap(wanted, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  if (hint == 0 || address == wanted) return address;
  ::munmap(address, length);
  return nullptr;
}

// Returns null if other memory is there.
std::byte* map_below_last(std::size_t length) noexcept {
  std::uintptr_t end = lowest.load();
  while (end > length && !lowest.compare_exchange_weak(end, end - length)) {
  }
  return end > length ? static_cast<std::byte*>(map_anonymous(end - length, length)) : nullptr;
}

}  // namespace

std::size_t page_size() noexcept {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

Pages map_pages(std::uint64_t size, bool aligned) noexcept {
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) - 2 * kHugePage ||
      !fits_in_machine(size))
    return {};
  const std::size_t length = whole_pages(static_cast<std::size_t>(size));
  const bool adjoins = !aligned && length < kMaxAdjoining;
  std::byte* begin = adjoins ? map_below_last(length) : nullptr;
  if (begin == nullptr) {
    void* const address = map_anonymous(0, length + kHugePage);
    if (address == nullptr) return {};
    auto* const whole = static_cast<std::byte*>(address);
    const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(whole) % kHugePage;
    const std::size_t head = misplaced == 0 ? 0 : kHugePage - misplaced;
    begin = whole + head;
    if (head != 0) ::munmap(whole, head);
    ::munmap(begin + length, kHugePage - head);
    if (adjoins) lowest.store(reinterpret_cast<std::uintptr_t>(begin));
  }
  request_huge_pages({begin, length});
  return {begin, length};
}

void unmap_pages(const Pages& pages) noexcept {
  auto begin = reinterpret_cast<std::uintptr_t>(pages.begin);
  (void)lowest.compare_exchange_strong(begin, begin + pages.size);  // the next memory goes here
  if (pages.begin != nullptr) (void)::munmap(pages.begin, pages.size);
}

bool maps_exhausted() noexcept {
  void* const page = ::mmap(nullptr, page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) ::munmap(page, page_size());
  return page == MAP_FAILED;
}

void give_up_pages(std::span<const std::byte> mapped) noexcept {
  const auto page = std::uintptr_t{page_size()};
  const auto begin = (reinterpret_cast<std::uintptr_t>(mapped.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(mapped.data()) + mapped.size()) / page * page;
  if (begin < end)
    (void)::madvise(const_cast<std::byte*>(mapped.data()) + (begin - reinterpret_cast<std::uintptr_t>(mapped.data())),
                    end - begin, MADV_DONTNEED);
}

void* map_file(int descriptor, std::uint64_t offset, std::size_t size, MapMode mode) noexcept {
  const bool shared = mode == MapMode::shared;
  void* const address =
      ::mmap(nullptr, size, shared ? PROT_READ : PROT_READ | PROT_WRITE,
             shared ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE, descriptor, static_cast<off_t>(offset));
  return address == MAP_FAILED ? nullptr : address;
}

void unmap_file(void* begin, std::size_t size) noexcept {
  (void)::munmap(begin, size);
}

}  // namespace safetensors::os
