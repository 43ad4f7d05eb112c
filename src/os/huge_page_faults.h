// Gets huge pages from the system as long as that is quick.
//
// If the free memory is fragmented, the system moves other pages to make a huge one: 6 to 12 ms instead of 0.2 ms were
// measured for a page of 2 MiB, so a load took 6 times as long as with small pages.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>

namespace safetensors::os {

// Decides page by page. After a page that took long, some pages are small. Then one is huge again, to see whether the
// memory is better by now. Thread-safe.
class HugePageChoice {
 public:
  static constexpr std::chrono::milliseconds kSlow{2};
  static constexpr int kFirstPause = 64;  // pages
  static constexpr int kLongestPause = 4096;

  // Whether the next page should be huge.
  [[nodiscard]] bool next() noexcept;
  // time: the processor time in which the system made a huge page.
  void record(std::chrono::nanoseconds time) noexcept;

 private:
  std::atomic<int> small_{0};  // so many pages are small before the next huge one
  std::atomic<int> pause_{kFirstPause};
};

// Makes the system provide the pages under memory that is new and about to be written. Huge pages come as the choice
// of the process says. memory: any part of the result of map_pages(). A huge page belongs to the part in which it
// begins. Does not change bytes. Does nothing before Linux 5.14.
void fault_in(std::span<std::byte> memory) noexcept;

}  // namespace safetensors::os
