// Work split among threads that live no longer than the call.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cancellation.h"

namespace safetensors::os {

// What one call hands out to threads. Called from several at once; must not throw.
class Tasks {
 public:
  Tasks() = default;
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;
  [[nodiscard]] virtual Status run(std::size_t index) noexcept = 0;

 protected:
  ~Tasks() = default;
};

// Runs every index in [0, count), begun in this order, on up to `threads` threads, the caller's one of them; fewer
// when the system gives no more. After a failure nothing is begun; of several failures that of the lowest index is
// returned.
// cancellation: may be null; asked while the caller's thread waits for the others, whose tasks must look at it.
[[nodiscard]] Status run_parallel(Tasks& tasks, std::size_t count, unsigned threads,
                                  base::Cancellation* cancellation = nullptr) noexcept;

// The processors that this process may use, at least 1 and at most 16.
[[nodiscard]] unsigned usable_processors() noexcept;

// Fills destination from offset on, in pieces of kReadPiece by up to `threads` threads; 0: as many as are of use.
// Errors: as read_exactly, of the first piece that failed. cancellation: may be null.
inline constexpr std::size_t kReadPiece = std::size_t{2} << 20;
[[nodiscard]] Status read_parallel(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
                                   unsigned threads = 0, base::Cancellation* cancellation = nullptr) noexcept;

}  // namespace safetensors::os
