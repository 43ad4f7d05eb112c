// Splits work among threads that end before the call returns.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cancellation.h"
#include "base/error.h"

namespace safetensors::os {

// The tasks of one call. Several threads call run() at the same time. It must not throw.
class Tasks {
 public:
  Tasks() = default;
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;
  [[nodiscard]] virtual Status run(std::size_t index) noexcept = 0;

 protected:
  ~Tasks() = default;
};

// Runs tasks.run(index) for every index in [0, count). Tasks begin in the order of their indexes. Uses up to `threads`
// threads, one of which is the caller's, and fewer if the system cannot start more. After a failure, threads stop
// taking tasks; a few may still begin. If several tasks fail, returns the error with the lowest index. cancellation:
// may be null. The caller's thread asks it while it waits for the other threads. The tasks of those threads must check
// it themselves.
[[nodiscard]] Status run_parallel(Tasks& tasks, std::size_t count, unsigned threads,
                                  base::Cancellation* cancellation = nullptr) noexcept;

// The same with a function that takes the index and returns a Status. If it throws std::bad_alloc, its task fails with
// out_of_memory. Nothing cancels it.
template <class Function>
[[nodiscard]] Status run_each(std::size_t count, unsigned threads, Function function) noexcept {
  class Each final : public Tasks {
   public:
    explicit Each(Function& each) noexcept : each_(each) {}
    [[nodiscard]] Status run(std::size_t index) noexcept override {
      return base::guarded([&]() -> Status { return each_(index); });
    }

   private:
    Function& each_;
  } tasks(function);
  return run_parallel(tasks, count, threads);
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
