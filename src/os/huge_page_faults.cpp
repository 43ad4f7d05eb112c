// Asks for pages of 2 MiB one by one (MADV_POPULATE_WRITE) and takes the time. Without this call, the first write to
// each page would do the same work. Processor time counts, because a thread that waits for a processor is not slow. It
// includes the time in which a host brings memory back.
#include "os/huge_page_faults.h"

#include <algorithm>
#include <cerrno>

#include "os/memory.h"
#include "os/thread_usage.h"

namespace safetensors::os {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Provides the pages in pieces. Advice needs the lock of all mappings of the process, so it waits for the pieces of
// other threads. Afterwards, the pages have the advice of the pages around them again. So the mapping stays one area
// for the system, which may also make huge pages of them later.
bool populate_small(std::byte* page, std::size_t size) noexcept {
  constexpr std::size_t kPiece = std::size_t{128} << 10;
  prefer_huge_pages({page, size}, false);
  bool known = true;
  for (std::size_t at = 0; known && at < size; at += kPiece)
    known = provide_pages({page + at, std::min(kPiece, size - at)});
  prefer_huge_pages({page, size}, true);
  return known;
}

}  // namespace

void HugePageChoice::begin(std::uint64_t pages) noexcept {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 20;  // more would overflow the product
  if (small_left_.load(kRelaxed) <= 0) return;
  const Times known = times();
  const auto trials = static_cast<std::int64_t>(std::min(pages, kMany)) / kTrialShare;
  if (known.huge <= known.small * trials) small_left_.store(0, kRelaxed);
}

bool HugePageChoice::next() noexcept {
  if (small_left_.load(kRelaxed) > 0 && small_left_.fetch_sub(1, kRelaxed) > 0) return false;
  if (!in_runs_.load(kRelaxed)) return true;
  // A thread may never report its time: the child of a fork does not have it. So the others do not wait for its trial
  // for ever.
  return asked_.fetch_add(1, kRelaxed) % kPagesPerTrial == 0;
}

void HugePageChoice::record(bool huge, Time time) noexcept {
  if (time < kPresent) {
    if (huge) asked_.store(0, kRelaxed);
    return;
  }
  return huge ? record_huge(time) : record_small(time);
}

void HugePageChoice::record_huge(Time time) noexcept {
  asked_.store(time < kSlow ? 0 : 1, kRelaxed);  // after a slow page, the next trial is one of small pages
  if (time < kSlow) {
    next_run_.store(kFirstRun, kRelaxed);
    patience_.store(0, kRelaxed);
    slow_left_.store(0, kRelaxed);
    in_runs_.store(false, kRelaxed);
    return;
  }
  huge_time_.store(time, kRelaxed);
  if (slow_left_.load(kRelaxed) > 0) {
    slow_left_.fetch_sub(1, kRelaxed);
    return;
  }
  // If several threads waited for huge pages at the same time, each of them may come here. One trial is enough.
  if (small_left_.load(kRelaxed) > 0) return;
  trial_.store(true, kRelaxed);
  small_left_.store(1, kRelaxed);
}

void HugePageChoice::record_small(Time time) noexcept {
  const Time huge = huge_time_.load(kRelaxed);
  const bool trial = trial_.exchange(false, kRelaxed);
  if (time >= kSlow && 2 * time > huge) {
    const int patience = std::clamp(2 * patience_.load(kRelaxed), 2, kLongestPatience);
    patience_.store(patience, kRelaxed);
    slow_left_.store(patience, kRelaxed);
    small_left_.store(0, kRelaxed);
    in_runs_.store(false, kRelaxed);
    return;
  }
  small_time_.store(time, kRelaxed);
  if (!trial) return;
  patience_.store(0, kRelaxed);
  in_runs_.store(time < huge, kRelaxed);
  if (time >= huge) return;
  const std::int64_t run = next_run_.load(kRelaxed);
  const std::int64_t worthwhile = kTrialShare * (huge - time).count() / std::max<std::int64_t>(time.count(), 1);
  next_run_.store(std::min(2 * run, kLongestRun), kRelaxed);
  small_left_.store(std::min({run, worthwhile, kLongestRun}), kRelaxed);
  asked_.store(0, kRelaxed);
}

HugePageChoice::Times HugePageChoice::times() const noexcept {
  return {huge_time_.load(kRelaxed), small_time_.load(kRelaxed)};
}

HugePageChoice& huge_page_choice() noexcept {
  static constinit HugePageChoice choice;
  return choice;
}

std::size_t fault_in(std::span<std::byte> memory, std::uint64_t behind, HugePageChoice& choice) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uint64_t end = memory.size() + behind;
  std::size_t in_small_pages = 0;
  for (std::size_t at = (kHugePage - start % kHugePage) % kHugePage; at < memory.size(); at += kHugePage) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kHugePage, end - at));
    const bool huge = choice.next();
    const auto before = thread_cpu_time();
    if (!(huge ? provide_pages({memory.data() + at, size}) : populate_small(memory.data() + at, size))) break;
    const HugePageChoice::Time time = thread_cpu_time() - before;
    if (!huge && time >= HugePageChoice::kPresent) in_small_pages += size;
    // A part of a huge page takes as long as all of it. Small pages take time page by page, so a few of them tell
    // little about 2 MiB.
    if (huge) choice.record(true, time);
    if (!huge && size >= kHugePage / 2) choice.record(false, time * kHugePage / size);
  }
  return in_small_pages;
}

}  // namespace safetensors::os
