// Places many results in a few large mappings and counts, per huge page, the results that live on it.
//
// A cursor places results behind each other, so neighbours share a page. One mapping per result would waste most of a
// page per small result. One mapping for all results would return no memory before the last result is gone. With one
// atomic count per 2 MiB page, the last result on a page returns that page to the system.
#include "os/huge_page_allocator.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/exceptions.h"

namespace safetensors::os {

// A mapping, and the number of allocations that live on each of its pages. A count rises, or becomes kGone for good,
// only under the allocator's mutex. It falls without the mutex.
class HugePageAllocator::Region {
 public:
  Region(const Pages& pages, bool keep)
      : pages_(pages),
        count_((pages.size + kHugePage - 1) / kHugePage),
        live_(new std::atomic<std::uint32_t>[count_]()),
        keep_(keep) {}
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  // Unmaps only the pages that are still mapped: another mapping may use the addresses of the others by now.
  ~Region() {
    for (std::size_t page = 0; page < count_; ++page) {
      const std::size_t first = page;
      while (page < count_ && live_[page].load() != kGone) ++page;
      if (first < page) unmap_pages(pages_at(first, page));
    }
  }

  [[nodiscard]] std::byte* begin() const noexcept { return pages_.begin; }
  [[nodiscard]] std::size_t size() const noexcept { return pages_.size; }
  // Bytes of the pages that are not gone.
  [[nodiscard]] std::uint64_t reserved() const noexcept { return pages_.size - gone_ * kHugePage; }
  [[nodiscard]] std::size_t page_count() const noexcept { return count_; }
  [[nodiscard]] bool huge() const noexcept { return pages_.huge; }
  [[nodiscard]] bool unused(std::size_t page) const noexcept { return live_[page].load() == 0; }
  [[nodiscard]] bool live(std::size_t page) const noexcept {
    const std::uint32_t count = live_[page].load();
    return count != 0 && count != kGone;
  }

  // Adds an allocation of the bytes [begin, end). Needs the mutex.
  void use(std::size_t begin, std::size_t end) noexcept {
    for (std::size_t page = begin / kHugePage; page <= (end - 1) / kHugePage; ++page) live_[page].fetch_add(1);
  }
  // Removes an allocation. Takes no lock, so it is safe in the child of a fork.
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
  // After this call, a page returns to the system with the last allocation on it. The order matters: a page that
  // becomes unused before the store is found by the loop after it.
  void stop_keeping() noexcept {
    keep_.store(false);
    (void)discard_unused(0, count_);
  }
  // Returns the unused pages among [begin, end) to the system. Returns the number of bytes. Consecutive pages share one
  // system call, because a call costs more than a page.
  std::uint64_t discard_unused(std::size_t begin, std::size_t end) noexcept {
    std::uint64_t bytes = 0;
    for (std::size_t page = begin; page < end; ++page) {
      const std::size_t first = page;
      while (page < end && unused(page)) ++page;
      if (first < page) bytes += discard_pages(first, page);
    }
    return bytes;
  }
  // Unmaps up to max_pages unused pages and returns their number. It must run only while pages are kept: otherwise a
  // concurrent leave() could call madvise() on pages that are unmapped already. Needs the mutex.
  std::size_t release(std::size_t max_pages) noexcept {
    std::size_t released = 0;
    for (std::size_t page = 0; page < count_ && released < max_pages; ++page) {
      const std::size_t first = page;
      while (page < count_ && page - first < max_pages - released && unused(page)) ++page;
      // A hole splits the mapping in two. The system refuses it if the process has too many mappings.
      if (first == page || !unmap_pages(pages_at(first, page))) continue;
      for (std::size_t i = first; i < page; ++i) live_[i].store(kGone);
      released += page - first;
    }
    gone_ += released;
    return released;
  }

 private:
  static constexpr std::uint32_t kGone = ~std::uint32_t{0};

  // Returns the unused pages among [first, last) to the system, if pages are no longer kept. The counts were 0 a moment
  // ago. While pages are kept, another thread may use them again, so they stay. Once pages are not kept, no page is
  // used again, so a count of 0 stays 0.
  void discard(std::size_t first, std::size_t last) noexcept {
    if (first < last && !keep_.load()) (void)discard_unused(first, last);
  }
  // The last page of a region may be shorter than kHugePage.
  [[nodiscard]] Pages pages_at(std::size_t first, std::size_t last) const noexcept {
    const std::size_t begin = first * kHugePage;
    return {pages_.begin + begin, std::min(last * kHugePage, pages_.size) - begin};
  }
  std::uint64_t discard_pages(std::size_t first, std::size_t last) noexcept {
    const Pages pages = pages_at(first, last);
    os::discard_pages({pages.begin, pages.size});
    return pages.size;
  }

  const Pages pages_;
  const std::size_t count_;
  const std::unique_ptr<std::atomic<std::uint32_t>[]> live_;
  std::atomic<bool> keep_;
  std::size_t gone_ = 0;  // number of unmapped pages; guarded by the allocator's mutex
};

// The deleter of an allocation.
struct HugePageAllocator::Release {
  std::shared_ptr<Region> region;
  std::size_t begin;
  std::size_t end;
  void operator()(const std::byte*) const noexcept { region->leave(begin, end); }
};

namespace {

// Returns the first offset from `offset` on that has the phase or the alignment of the request. Offsets and addresses
// have the same phase, because a region begins at a multiple of kHugePage.
std::size_t start_of(const HugePageAllocator::Request& request, std::size_t offset) noexcept {
  if (request.phase == HugePageAllocator::Request::kAnyPhase)
    return (offset + HugePageAllocator::kAlignment - 1) / HugePageAllocator::kAlignment * HugePageAllocator::kAlignment;
  const std::size_t phase = offset % HugePageAllocator::kPhase;
  return offset + (phase <= request.phase ? request.phase - phase : HugePageAllocator::kPhase - phase + request.phase);
}

// Returns the end of the last request if all of them are placed from `offset` on. Returns 2^64-1 if the end is too
// large.
std::uint64_t end_of(std::span<const HugePageAllocator::Request> requests, std::uint64_t offset) noexcept {
  constexpr std::uint64_t kTooFar = std::numeric_limits<std::uint64_t>::max();
  for (const HugePageAllocator::Request& request : requests) {
    if (request.size == 0) continue;
    if (offset > kTooFar / 2 || request.size > kTooFar / 2) return kTooFar;
    offset = start_of(request, static_cast<std::size_t>(offset)) + request.size;
  }
  return offset;
}

// Returns whether all requests fit into [offset, end), in this order.
bool fit(std::span<const HugePageAllocator::Request> requests, std::uint64_t offset, std::uint64_t end) noexcept {
  for (const HugePageAllocator::Request& request : requests) {
    if (request.size == 0) continue;
    offset = start_of(request, static_cast<std::size_t>(offset));
    if (offset > end || request.size > end - offset) return false;
    offset += request.size;
  }
  return true;
}

// Runs place(). If it fails, releases the requests that are placed already.
template <class Place>
Status all_or_none(std::span<HugePageAllocator::Request> requests, const Place& place) {
  Status status = base::guarded(place);
  if (status) return status;
  for (HugePageAllocator::Request& request : requests) request.memory.reset();
  return base::guarded([&]() -> Status {
    return base::make_error(Errc::out_of_memory, "cannot allocate " + std::to_string(end_of(requests, 0)) + " bytes");
  });
}

}  // namespace

HugePageAllocator::~HugePageAllocator() {
  for (const std::shared_ptr<Region>& region : regions_) region->stop_keeping();
}

Status HugePageAllocator::place(std::span<Request> requests) noexcept {
  return all_or_none(requests, [&]() -> Status {
    const std::lock_guard lock(mutex_);
    place_all(requests);
    return {};
  });
}

Status HugePageAllocator::place_once(std::span<Request> requests, bool& huge) noexcept {
  const std::uint64_t size = end_of(requests, 0);
  huge = true;
  return all_or_none(requests, [&]() -> Status {
    if (size < kHugePage) return place_small(requests, size);
    // The allocator is destroyed at the end of this function, and its region lives on in the results. Unused pages are
    // not kept, because no other request will come.
    HugePageAllocator allocator;
    allocator.cursor_ = allocator.add_region(size, false);
    huge = allocator.huge();
    allocator.place_all(requests);
    return {};
  });
}

// Places requests that together need less than one huge page. They share one ordinary allocation.
Status HugePageAllocator::place_small(std::span<Request> requests, std::uint64_t size) {
  Result<std::shared_ptr<std::byte>> memory = allocate(size, kPhase);
  if (!memory) return std::move(memory).error();
  std::size_t offset = 0;
  for (Request& request : requests) {
    if (request.size == 0) continue;
    offset = start_of(request, offset);
    request.memory = std::shared_ptr<std::byte>(*memory, memory->get() + offset);
    offset += static_cast<std::size_t>(request.size);
  }
  return {};
}

void HugePageAllocator::place_all(std::span<Request> requests) {
  if (!fit(requests, cursor_.begin, cursor_.end)) cursor_ = find_space(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    if (request.size == 0) continue;
    if (!fit(requests.subspan(i, 1), cursor_.begin, cursor_.end)) cursor_ = find_space(requests.subspan(i));
    const std::size_t begin = start_of(request, cursor_.begin);
    const std::size_t end = begin + static_cast<std::size_t>(request.size);
    const std::shared_ptr<Region>& region = regions_[cursor_.region];
    region->use(begin, end);
    // If the allocation of its counter fails, the shared_ptr calls the deleter itself. So nothing leaks here.
    request.memory = std::shared_ptr<std::byte>(region->begin() + begin, Release{region, begin, end});
    cursor_.begin = end;
  }
}

// Returns unused space that fits all requests. If there is no such space, returns unused space that fits the first
// request. If there is no such space either, adds a region.
HugePageAllocator::Cursor HugePageAllocator::find_space(std::span<const Request> requests) {
  Cursor good;
  if (fit(requests.first(1), cursor_.begin, cursor_.end)) good = cursor_;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = *regions_[i];
    for (std::size_t page = 0; page < region.page_count(); ++page) {
      if (!region.unused(page)) continue;
      const std::size_t first = page;
      while (page < region.page_count() && region.unused(page)) ++page;
      const Cursor space{i, first * kHugePage, std::min(page * kHugePage, region.size())};
      if (fit(requests, space.begin, space.end)) return space;
      if (good.end == 0 && fit(requests.first(1), space.begin, space.end)) good = space;
    }
  }
  return good.end != 0 ? good : add_region(end_of(requests, 0), true);
}

HugePageAllocator::Cursor HugePageAllocator::add_region(std::uint64_t size, bool keep) {
  // A region whose pages are used again has whole pages only.
  if (keep && size <= std::numeric_limits<std::uint64_t>::max() - kHugePage)
    size = (size + kHugePage - 1) / kHugePage * kHugePage;
  if (!fits_in_machine(size)) base::raise(std::bad_alloc());
  if (keep) release_unused(size / kHugePage);
  regions_.reserve(regions_.size() + 1);
  const Pages pages = map_pages(size);
  if (pages.begin == nullptr) base::raise(std::bad_alloc());
  base::or_undo([&] { regions_.push_back(std::make_shared<Region>(pages, keep)); }, [&] { unmap_pages(pages); });
  return {regions_.size() - 1, 0, pages.size};
}

// Unmaps up to `pages` unused pages before a region with as many pages is added. The unused pages did not fit the
// request. So reserved_bytes() never exceeds the highest live_bytes().
void HugePageAllocator::release_unused(std::uint64_t pages) noexcept {
  cursor_ = {};
  for (const std::shared_ptr<Region>& region : regions_) {
    if (pages == 0) break;
    pages -= region->release(static_cast<std::size_t>(pages));
  }
  std::erase_if(regions_, [](const std::shared_ptr<Region>& region) { return region->reserved() == 0; });
}

std::uint64_t HugePageAllocator::trim() noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const std::shared_ptr<Region>& region : regions_) bytes += region->discard_unused(0, region->page_count());
  return bytes;
}

std::uint64_t HugePageAllocator::reserved_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const std::shared_ptr<Region>& region : regions_) bytes += region->reserved();
  return bytes;
}

std::uint64_t HugePageAllocator::live_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const std::shared_ptr<Region>& region : regions_) {
    for (std::size_t page = 0; page < region->page_count(); ++page)
      if (region->live(page)) bytes += std::min(kHugePage, region->size() - page * kHugePage);
  }
  return bytes;
}

bool HugePageAllocator::huge() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(regions_, [](const std::shared_ptr<Region>& region) { return region->huge(); });
}

}  // namespace safetensors::os
