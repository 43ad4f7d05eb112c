// Threads that run one function together.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace safetensors::os {

// Used by one thread at a time.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup() { join(); }

  // Starts up to `count` threads that run `work`, which must not throw. Returns 0, or the error_number of the first
  // thread that could not be started: the threads started before it go on.
  int start(std::size_t count, const std::function<void()>& work) noexcept;
  // Number of threads started and not yet joined.
  [[nodiscard]] std::size_t size() const noexcept { return threads_.size(); }
  // Waits until all threads have ended.
  void join() noexcept;

 private:
  std::vector<std::thread> threads_;
};

}  // namespace safetensors::os
