// Asks for the pages of 2 MiB one by one (MADV_POPULATE_WRITE) and takes the time. Without this call, the first write
// to each page would do the same work. Processor time counts, because a thread that waits for a processor is not slow.
#include "os/huge_page_faults.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "os/memory.h"

namespace safetensors::os {
namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack

std::chrono::nanoseconds processor_time() noexcept {
  struct timespec now {};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

bool HugePageChoice::next() noexcept {
  if (small_.load(std::memory_order_relaxed) <= 0) return true;
  return small_.fetch_sub(1, std::memory_order_relaxed) <= 0;
}

void HugePageChoice::record(std::chrono::nanoseconds time) noexcept {
  const int pause = pause_.load(std::memory_order_relaxed);
  if (time >= kSlow) {
    // If several threads waited for huge pages at the same time, the first one counts for all.
    int left = small_.load(std::memory_order_relaxed);
    if (left > 0 || !small_.compare_exchange_strong(left, pause, std::memory_order_relaxed)) return;
    pause_.store(std::min(2 * pause, kLongestPause), std::memory_order_relaxed);
  } else {
    pause_.store(std::max(pause / 2, kFirstPause), std::memory_order_relaxed);
  }
}

void fault_in(std::span<std::byte> memory) noexcept {
  static constinit HugePageChoice choice;
  const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
  std::size_t at = (kHugePage - start % kHugePage) % kHugePage;
  for (; at < memory.size(); at += kHugePage) {
    const std::size_t size = std::min(kHugePage, memory.size() - at);
    std::byte* const page = memory.data() + at;
    const bool huge = choice.next();
    (void)::madvise(page, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // memory of an Arena may have the other one
    const auto before = processor_time();
    if (::madvise(page, size, kPopulateWrite) != 0 && errno == EINVAL) return;
    if (huge) choice.record(processor_time() - before);
  }
}

}  // namespace safetensors::os
