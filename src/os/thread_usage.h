// The CPU time and the page faults of a thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace safetensors::os {

struct ThreadUsage {
  double cpu_seconds = 0;
  std::uint64_t page_faults = 0;  // minor faults, which need no I/O

  ThreadUsage& operator+=(const ThreadUsage& other) noexcept {
    cpu_seconds += other.cpu_seconds, page_faults += other.page_faults;
    return *this;
  }
};

// The processor time of the calling thread, in nanoseconds. It includes the work of the system, and the time in which a
// host brings memory back, but no time in which the thread waits.
[[nodiscard]] std::chrono::nanoseconds thread_cpu_time() noexcept;

// Measures the thread that constructs it. The measurement begins with the constructor.
class ThreadClock {
 public:
  ThreadClock() noexcept;
  // Returns the usage since the last call, or since the constructor. Must be called by the same thread.
  [[nodiscard]] ThreadUsage lap() noexcept;

 private:
  ThreadUsage begin_;
};

}  // namespace safetensors::os
