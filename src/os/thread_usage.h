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
  ThreadUsage operator-(const ThreadUsage& earlier) const noexcept {
    return {cpu_seconds - earlier.cpu_seconds, page_faults - earlier.page_faults};
  }
};

// The usage of the calling thread since it began. Only Linux counts page faults per thread; elsewhere they are 0.
[[nodiscard]] ThreadUsage thread_usage() noexcept;

}  // namespace safetensors::os
