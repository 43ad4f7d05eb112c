// The CPU time and the page faults of a thread.
#pragma once

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
