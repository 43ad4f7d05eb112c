// Chooses between huge and small pages by their measured times.
//
// A huge page needs one page fault instead of 512, so it is 6 times as quick as small ones for the same bytes. There
// are two exceptions. If the free memory is fragmented, the system moves other pages to make a huge one, in 6 to 12 ms
// instead of 0.1 ms. And a virtual machine may have given free memory back to its host, which then takes 4 to 8 ms to
// bring 2 MiB back, for pages of either size. Small pages may find memory that is still there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace safetensors::os {

// Decides for 2 MiB at a time. Pages are huge until one is slow. Then small pages are tried for the next 2 MiB. If
// these are quicker, a run of small pages follows, before one huge page is tried again. Meanwhile, other threads go on
// with small pages. Each run is twice as long as the one before, until the trials cost 1/kTrialShare of the time of the
// runs. If both are slow, the pages are huge.
// Thread-safe, also in the child of a fork.
class HugePageChoice {
 public:
  using Time = std::chrono::nanoseconds;  // processor time
  static constexpr Time kSlow = std::chrono::milliseconds{1};
  static constexpr Time kPresent = std::chrono::microseconds{10};  // no system clears 2 MiB in this time
  static constexpr std::int64_t kTrialShare = 20;
  static constexpr std::int64_t kFirstRun = 8;
  static constexpr std::int64_t kLongestRun = 1024;
  static constexpr int kLongestPatience = 16;
  static constexpr unsigned kPagesPerTrial = 64;  // small pages of other threads before another huge page is tried

  // The times of the last slow huge page, and of small pages for as many bytes.
  struct Times {
    Time huge{0};
    Time small{0};
  };

  // Call it before `pages` pages of 2 MiB are used. If there are many pages, the first one is huge: compared with all
  // of them, one trial costs little.
  void begin(std::uint64_t pages) noexcept;
  // Returns whether the next page should be huge.
  [[nodiscard]] bool next() noexcept;
  // time: how long the system took to provide 2 MiB. Times below kPresent are not recorded, because the pages were
  // there already.
  void record(bool huge, Time time) noexcept;
  [[nodiscard]] Times times() const noexcept;

 private:
  void record_huge(Time time) noexcept;
  void record_small(Time time) noexcept;

  std::atomic<std::int64_t> small_left_{0};  // ranges of 2 MiB that get small pages before the next huge page
  std::atomic<std::int64_t> next_run_{kFirstRun};
  std::atomic<bool> trial_{false};    // small pages are being tried
  std::atomic<bool> in_runs_{false};  // small pages were quicker
  std::atomic<unsigned> asked_{0};    // calls of next() since the run ended
  std::atomic<int> patience_{0};      // slow huge pages until the next trial, if both kinds were slow in the last one
  std::atomic<int> slow_left_{0};     // the slow huge pages that remain of patience_
  std::atomic<Time> huge_time_{Time{0}};
  std::atomic<Time> small_time_{Time{0}};
};

// The choice of this process. Only the times of its pages are remembered, which are facts about the machine.
[[nodiscard]] HugePageChoice& huge_page_choice() noexcept;

// Makes the system provide the pages under memory that is about to be written, as the choice says. memory: any part of
// the result of map_pages(). A huge page belongs to the part in which it begins. `behind`: number of bytes after the
// memory that belong to the caller, too. With enough of them, the last huge page is provided whole. Does not change
// bytes, and pages that are there already stay as they are. Returns the number of bytes that got small pages. Does
// nothing before Linux 5.14.
std::size_t fault_in(std::span<std::byte> memory, std::uint64_t behind = 0,
                     HugePageChoice& choice = huge_page_choice()) noexcept;

}  // namespace safetensors::os
