// Threads that run one function together, and work that is split among threads that end before the call returns.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "base/cancellation.h"

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

namespace detail {

using Task = std::function<Status(std::size_t index)>;
[[nodiscard]] Status run_parallel(std::size_t count, unsigned threads, const Task& task,
                                  base::Cancellation* cancellation) noexcept;

}  // namespace detail

// Calls task(index), which returns a Status, for every index in [0, count). Several threads call it at the same time.
// Calls begin in the order of their indexes. A call that throws std::bad_alloc counts as failed, with out_of_memory.
// Uses up to `threads` threads, one of which is the caller's, and fewer if the system cannot start more. After a
// failure, threads stop taking indexes; a few may still begin. If several calls fail, returns the error with the lowest
// index.
// cancellation: may be null. The caller's thread asks it while it waits for the other threads. It does not stop them:
// each task must ask it, too.
template <class Function>
[[nodiscard]] Status run_parallel(std::size_t count, unsigned threads, const Function& task,
                                  base::Cancellation* cancellation = nullptr) noexcept {
  return detail::run_parallel(count, threads, std::cref(task), cancellation);  // so that nothing is allocated
}

// Returns the number of processors that this process may use, at least 1 and at most 16.
[[nodiscard]] unsigned usable_processors() noexcept;

// Fills destination with bytes from `offset` on. Up to `threads` threads read chunks of kReadChunk bytes, or of
// Source::request_bytes() if that is more. 0 threads: one per usable processor. A source that is not concurrent is read
// by one thread. Errors: those of read_exactly(), for the first chunk that fails. cancellation: may be null.
inline constexpr std::size_t kReadChunk = std::size_t{2} << 20;  // bytes
[[nodiscard]] Status read_parallel(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
                                   unsigned threads = 0, base::Cancellation* cancellation = nullptr) noexcept;

}  // namespace safetensors::os
