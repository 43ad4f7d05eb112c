// Pages of memory: anonymous mappings, aligned to 2 MiB so that huge pages fit, and calls for mapped files.
//
// mmap() does not align to 2 MiB, so map_pages() maps more than that and unmaps both ends. Mappings that need no
// alignment are parts of a larger one, from its end down. So the system counts one mapping, and the huge page between
// two parts is filled by both.
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

// The size and the alignment of a large mapping. No process has 65,530 mappings of this size.
constexpr std::size_t kChunk = std::size_t{64} << 20;
// The last large mapping: where its free part ends, plus the number of its parts in use, which is at most 32. The free
// part begins at the multiple of kChunk below. 0: there is no such mapping.
std::atomic<std::uintptr_t> last_chunk{0};
constexpr std::uintptr_t kPartsMask = 0xFFF;  // a page has 4096 bytes or more

std::byte* address_of(std::uintptr_t number) noexcept {
  return reinterpret_cast<std::byte*>(number);  // NOLINT(performance-no-int-to-ptr)
}

// Returns null if the system has no memory. length, alignment: whole pages.
std::byte* map_aligned(std::size_t length, std::size_t alignment) noexcept {
  void* const address = ::mmap(nullptr, length + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  auto* const whole = static_cast<std::byte*>(address);
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(whole) % alignment;
  const std::size_t head = misplaced == 0 ? 0 : alignment - misplaced;
  if (head != 0) ::munmap(whole, head);
  ::munmap(whole + head + length, alignment - head);
  request_huge_pages({whole + head, length});
  return whole + head;
}

void unmap_free_part(std::uintptr_t chunk) noexcept {
  const std::uintptr_t end = chunk & ~kPartsMask;
  if (end % kChunk != 0) ::munmap(address_of(end - end % kChunk), end % kChunk);
}

std::byte* take_part(std::size_t length) noexcept {
  std::uintptr_t last = last_chunk.load();
  while ((last & ~kPartsMask) % kChunk >= length) {
    if (last_chunk.compare_exchange_weak(last, last - length + 1)) return address_of((last & ~kPartsMask) - length);
  }
  std::byte* const chunk = map_aligned(kChunk, kChunk);
  if (chunk == nullptr) return nullptr;
  std::byte* const begin = chunk + (kChunk - length);
  unmap_free_part(last_chunk.exchange(reinterpret_cast<std::uintptr_t>(begin) + 1));
  return begin;
}

// Nothing of the last large mapping stays when its last part goes.
void count_down(std::uintptr_t part) noexcept {
  std::uintptr_t last = last_chunk.load();
  while (last / kChunk == part / kChunk) {
    const bool only = (last & kPartsMask) == 1;
    if (!last_chunk.compare_exchange_weak(last, only ? 0 : last - 1)) continue;
    if (only) unmap_free_part(last);
    return;
  }
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
  std::byte* begin = !aligned && length < kChunk ? take_part(length) : nullptr;
  if (begin == nullptr) begin = map_aligned(length, kHugePage);
  return {begin, begin == nullptr ? 0 : length};
}

void unmap_pages(const Pages& pages) noexcept {
  count_down(reinterpret_cast<std::uintptr_t>(pages.begin));
  // If no map is left to split a larger one, the addresses stay.
  if (pages.begin != nullptr && ::munmap(pages.begin, pages.size) != 0) discard_pages({pages.begin, pages.size});
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
