// What a thread has cost.
#pragma once

#include <cstdint>

namespace safetensors::os {

struct ThreadUsage {
  double cpu_seconds = 0;
  std::uint64_t page_faults = 0;  // that needed no device

  ThreadUsage& operator+=(const ThreadUsage& other) noexcept {
    cpu_seconds += other.cpu_seconds, page_faults += other.page_faults;
    return *this;
  }
};

// Begins to count when it is made, in the thread that makes it.
class ThreadClock {
 public:
  ThreadClock() noexcept;
  // Since then, or since this was asked last; to be asked by the same thread.
  [[nodiscard]] ThreadUsage lap() noexcept;

 private:
  ThreadUsage begin_;
};

}  // namespace safetensors::os
