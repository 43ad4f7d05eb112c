#include "os/huge_page_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace safetensors::os {

// A mapping, and how many stretches live on each of its pages. A count goes up from 0, or to kGone for good, only under
// the arena's mutex; it comes down without.
class HugePageAllocator::Region {
 public:
  Region(const Pages& pages, bool keep)
      : pages_(pages),
        count_((pages.size + kHugePage - 1) / kHugePage),
        live_(new std::atomic<std::uint32_t>[count_]()),
        keep_(keep) {}
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  // Where pages are gone somebody else's may be by now.
  ~Region() {
    for (std::size_t page = 0; page < count_; ++page) {
      const std::size_t first = page;
      while (page < count_ && live_[page].load() != kGone) ++page;
      if (first < page) unmap_pages(run(first, page));
    }
  }

  [[nodiscard]] std::byte* begin() const noexcept { return pages_.begin; }
  [[nodiscard]] std::size_t size() const noexcept { return pages_.size; }
  // Of the pages that are not gone.
  [[nodiscard]] std::uint64_t reserved() const noexcept { return pages_.size - gone_ * kHugePage; }
  [[nodiscard]] std::size_t page_count() const noexcept { return count_; }
  [[nodiscard]] bool huge() const noexcept { return pages_.huge; }
  [[nodiscard]] bool unused(std::size_t page) const noexcept { return live_[page].load() == 0; }
  [[nodiscard]] bool live(std::size_t page) const noexcept {
    const std::uint32_t count = live_[page].load();
    return count != 0 && count != kGone;
  }

  void use(std::size_t begin, std::size_t end) noexcept {
    for (std::size_t page = begin / kHugePage; page <= (end - 1) / kHugePage; ++page) live_[page].fetch_add(1);
  }
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
  // From now on pages go to the system when their last stretch does.
  void stop_keeping() noexcept {
    keep_.store(false);
    (void)discard_unused(0, count_);
  }
  // Of pages [begin, end). A run of pages at a time: a call costs more than a page.
  std::uint64_t discard_unused(std::size_t begin, std::size_t end) noexcept {
    std::uint64_t bytes = 0;
    for (std::size_t page = begin; page < end; ++page) {
      const std::size_t first = page;
      while (page < end && unused(page)) ++page;
      if (first < page) bytes += give_back(first, page);
    }
    return bytes;
  }
  // Unmaps unused pages, at most as many as that, and returns how many. Only while pages are kept, so that nobody
  // who gives back the last stretch on one looks at it again.
  std::size_t release(std::size_t most) noexcept {
    std::size_t released = 0;
    for (std::size_t page = 0; page < count_ && released < most; ++page) {
      const std::size_t first = page;
      while (page < count_ && page - first < most - released && unused(page)) ++page;
      // Refused where that would be one mapping too many.
      if (first == page || !unmap_pages(run(first, page))) continue;
      for (std::size_t i = first; i < page; ++i) live_[i].store(kGone);
      released += page - first;
    }
    gone_ += released;
    return released;
  }

 private:
  static constexpr std::uint32_t kGone = ~std::uint32_t{0};

  // Pages [first, last), which nothing lived on just now. Another may live there since; but once pages are not kept
  // none are given out, so that then a count of 0 stays.
  void discard(std::size_t first, std::size_t last) noexcept {
    if (first < last && !keep_.load()) (void)discard_unused(first, last);
  }
  [[nodiscard]] Pages run(std::size_t first, std::size_t last) const noexcept {
    const std::size_t begin = first * kHugePage;
    return {pages_.begin + begin, std::min(last * kHugePage, pages_.size) - begin};
  }
  std::uint64_t give_back(std::size_t first, std::size_t last) noexcept {
    const Pages pages = run(first, last);
    (void)::madvise(pages.begin, pages.size, MADV_DONTNEED);
    return pages.size;
  }

  const Pages pages_;
  const std::size_t count_;
  const std::unique_ptr<std::atomic<std::uint32_t>[]> live_;
  std::atomic<bool> keep_;
  std::size_t gone_ = 0;  // pages; under the arena's mutex
};

// What a shared_ptr to a stretch holds.
struct HugePageAllocator::Stretch {
  std::shared_ptr<Region> region;
  std::size_t begin;
  std::size_t end;
  void operator()(const std::byte*) const noexcept { region->leave(begin, end); }
};

namespace {

// Where a request begins when what is free begins at `at`; regions begin in phase 0.
std::size_t start_of(const HugePageAllocator::Request& request, std::size_t at) noexcept {
  if (request.phase == HugePageAllocator::Request::kAnyPhase)
    return (at + HugePageAllocator::kAlignment - 1) / HugePageAllocator::kAlignment * HugePageAllocator::kAlignment;
  const std::size_t phase = at % HugePageAllocator::kPhase;
  return at + (phase <= request.phase ? request.phase - phase : HugePageAllocator::kPhase - phase + request.phase);
}

// Where requests end that begin to be placed at `at`; the largest number when that is no number.
std::uint64_t end_of(std::span<const HugePageAllocator::Request> requests, std::uint64_t at) noexcept {
  constexpr std::uint64_t kTooFar = std::numeric_limits<std::uint64_t>::max();
  for (const HugePageAllocator::Request& request : requests) {
    if (request.size == 0) continue;
    if (at > kTooFar / 2 || request.size > kTooFar / 2) return kTooFar;
    at = start_of(request, static_cast<std::size_t>(at)) + request.size;
  }
  return at;
}

// Whether requests have room in [at, end).
bool fit(std::span<const HugePageAllocator::Request> requests, std::uint64_t at, std::uint64_t end) noexcept {
  for (const HugePageAllocator::Request& request : requests) {
    if (request.size == 0) continue;
    at = start_of(request, static_cast<std::size_t>(at));
    if (at > end || request.size > end - at) return false;
    at += request.size;
  }
  return true;
}

// Runs place; when it fails, nothing stays placed.
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
    // Not used again, so nobody waits for its pages: they may go at any time.
    HugePageAllocator arena;
    arena.cursor_ = arena.add_region(size, false);
    huge = arena.huge();
    arena.place_all(requests);
    return {};
  });
}

Status HugePageAllocator::place_small(std::span<Request> requests, std::uint64_t size) {
  Result<std::shared_ptr<std::byte>> memory = allocate(size, kPhase);
  if (!memory) return std::move(memory).error();
  std::size_t at = 0;
  for (Request& request : requests) {
    if (request.size == 0) continue;
    at = start_of(request, at);
    request.memory = std::shared_ptr<std::byte>(*memory, memory->get() + at);
    at += static_cast<std::size_t>(request.size);
  }
  return {};
}

void HugePageAllocator::place_all(std::span<Request> requests) {
  if (!fit(requests, cursor_.at, cursor_.end)) cursor_ = find_room(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    if (request.size == 0) continue;
    if (!fit(requests.subspan(i, 1), cursor_.at, cursor_.end)) cursor_ = find_room(requests.subspan(i));
    const std::size_t begin = start_of(request, cursor_.at);
    const std::size_t end = begin + static_cast<std::size_t>(request.size);
    const std::shared_ptr<Region>& region = regions_[cursor_.region];
    region->use(begin, end);
    // Calls the deleter by itself if there is no memory for the counter.
    request.memory = std::shared_ptr<std::byte>(region->begin() + begin, Stretch{region, begin, end});
    cursor_.at = end;
  }
}

// For all of them if there is such room, else for the first of them at least.
HugePageAllocator::Cursor HugePageAllocator::find_room(std::span<const Request> rest) {
  Cursor good;
  if (fit(rest.first(1), cursor_.at, cursor_.end)) good = cursor_;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = *regions_[i];
    for (std::size_t page = 0; page < region.page_count(); ++page) {
      if (!region.unused(page)) continue;
      const std::size_t first = page;
      while (page < region.page_count() && region.unused(page)) ++page;
      const Cursor run{i, first * kHugePage, std::min(page * kHugePage, region.size())};
      if (fit(rest, run.at, run.end)) return run;
      if (good.end == 0 && fit(rest.first(1), run.at, run.end)) good = run;
    }
  }
  return good.end != 0 ? good : add_region(end_of(rest, 0), true);
}

HugePageAllocator::Cursor HugePageAllocator::add_region(std::uint64_t size, bool keep) {
  // What is used again is used in whole pages.
  if (keep && size <= std::numeric_limits<std::uint64_t>::max() - kHugePage)
    size = (size + kHugePage - 1) / kHugePage * kHugePage;
  if (!fits_in_machine(size)) throw std::bad_alloc();
  if (keep) make_room(size / kHugePage);
  regions_.reserve(regions_.size() + 1);
  const Pages pages = map_pages(size);
  if (pages.begin == nullptr) throw std::bad_alloc();
  try {
    regions_.push_back(std::make_shared<Region>(pages, keep));
  } catch (...) {
    unmap_pages(pages);
    throw;
  }
  return {regions_.size() - 1, 0, pages.size};
}

// What is unused is of no use where a region is added: gives up as many pages of it as come, so that no more is ever
// reserved than was live at once.
void HugePageAllocator::make_room(std::uint64_t pages) noexcept {
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
