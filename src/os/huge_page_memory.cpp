// Places many results in one large mapping and counts, per huge page, the results that live on it.
//
// Results are placed behind each other, so neighbours share a page. One mapping per result would waste most of a page
// per small result. One mapping without counts would return no memory before the last result is gone. With one atomic
// count per 2 MiB page, the last result on a page returns that page to the system.
#include "os/huge_page_memory.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace safetensors::os {
namespace {

// A mapping, and the number of results that live on each of its pages. Nobody uses a page again after its last result.
class Region {
 public:
  Region(std::shared_ptr<std::byte> memory, std::size_t size)
      : memory_(std::move(memory)),
        size_(size),
        live_(new std::atomic<std::uint32_t>[(size + kHugePage - 1) / kHugePage]()) {}

  // Adds a result of the bytes [begin, end).
  void use(std::size_t begin, std::size_t end) noexcept {
    for (std::size_t page = begin / kHugePage; page <= (end - 1) / kHugePage; ++page) live_[page].fetch_add(1);
  }
  // Removes it. Consecutive unused pages share one system call, because a call costs more than a page.
  void leave(std::size_t begin, std::size_t end) noexcept {
    std::size_t first = begin / kHugePage;
    const std::size_t last = (end - 1) / kHugePage;
    for (std::size_t page = first; page <= last; ++page) {
      if (live_[page].fetch_sub(1) == 1) continue;
      discard(first, page);
      first = page + 1;
    }
    discard(first, last + 1);
  }

 private:
  // The last page of a region may be shorter than kHugePage.
  void discard(std::size_t first, std::size_t last) noexcept {
    if (first == last) return;
    const std::size_t begin = first * kHugePage;
    discard_pages({memory_.get() + begin, std::min(last * kHugePage, size_) - begin});
  }

  const std::shared_ptr<std::byte> memory_;
  const std::size_t size_;  // bytes, whole pages
  const std::unique_ptr<std::atomic<std::uint32_t>[]> live_;
};

// The deleter of a result.
struct Release {
  std::shared_ptr<Region> region;
  std::size_t begin;
  std::size_t end;
  void operator()(const std::byte*) const noexcept { region->leave(begin, end); }
};

// Returns the first offset from `offset` on that has the phase or the alignment of the request. Offsets and addresses
// have the same phase, because a region begins at a whole page.
std::size_t start_of(const MemoryRequest& request, std::size_t offset) noexcept {
  constexpr std::size_t kAlignment = MemoryRequest::kAlignment;
  if (request.phase == MemoryRequest::kAnyPhase) return (offset + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t phase = offset % MemoryRequest::kPhase;
  return offset + (phase <= request.phase ? 0 : MemoryRequest::kPhase) + request.phase - phase;
}

// Returns the end of the last request, or 2^64-1 if that is too large.
std::uint64_t end_of(std::span<const MemoryRequest> requests) noexcept {
  constexpr std::uint64_t kTooFar = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t offset = 0;
  for (const MemoryRequest& request : requests) {
    if (request.size == 0) continue;
    if (offset > kTooFar / 2 || request.size > kTooFar / 2) return kTooFar;
    offset = start_of(request, static_cast<std::size_t>(offset)) + request.size;
  }
  return offset;
}

// Requests that together need less than one huge page share one ordinary allocation. Larger memory is a Region.
Status place_all(std::span<MemoryRequest> requests, std::uint64_t size) {
  const bool small = size < kHugePage;
  Result<std::shared_ptr<std::byte>> memory = allocate(size, small                  ? MemoryRequest::kPhase
                                                             : requests.size() == 1 ? MemoryRequest::kAlignment
                                                                                    : kHugePage);
  if (!memory) return std::move(memory).error();
  std::shared_ptr<Region> region;
  if (!small) {
    const std::size_t pages = (static_cast<std::size_t>(size) + page_size() - 1) / page_size();
    region = std::make_shared<Region>(*memory, pages * page_size());
  }
  std::size_t offset = 0;
  for (MemoryRequest& request : requests) {
    if (request.size == 0) continue;
    const std::size_t begin = start_of(request, offset);
    offset = begin + static_cast<std::size_t>(request.size);
    std::byte* const address = memory->get() + begin;
    if (region != nullptr) region->use(begin, offset);
    // If the allocation of its counter fails, the shared_ptr calls the deleter itself. So nothing leaks here.
    request.memory = region == nullptr ? std::shared_ptr<std::byte>(*memory, address)
                                       : std::shared_ptr<std::byte>(address, Release{region, begin, offset});
  }
  return {};
}

}  // namespace

Status place(std::span<MemoryRequest> requests) noexcept {
  const std::uint64_t size = end_of(requests);
  Status status = base::guarded([&] { return place_all(requests, size); });
  if (status) return status;
  for (MemoryRequest& request : requests) request.memory.reset();
  return base::guarded([&]() -> Status { return no_memory(size); });
}

}  // namespace safetensors::os
