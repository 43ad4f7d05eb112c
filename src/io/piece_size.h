// Chooses the size of writes to the page cache from the time that they take.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace safetensors::io {

// The writes to one file. For a larger write, a file system looks for larger pages. While they are plentiful, that
// takes less time per byte. If memory is fragmented, it takes several times as long. So the first writes are small.
// Then one write of the next size is a trial, and its time decides. Thread-safe.
class PieceSize {
 public:
  using Time = std::chrono::nanoseconds;  // processor time
  static constexpr std::array<std::size_t, 3> kSizes = {std::size_t{256} << 10, std::size_t{1} << 20,
                                                        std::size_t{4} << 20};
  static constexpr unsigned kFirstWait = 4;       // pieces before a trial
  static constexpr unsigned kLongestWait = 1024;  // pieces before a trial if trials fail again and again

  // The number of bytes of the next write.
  [[nodiscard]] std::size_t next() const noexcept;
  // Reports a write of a whole piece. Other writes are ignored.
  void record(std::size_t size, Time time) noexcept;

 private:
  void record_used(double per_byte) noexcept;
  void wait_longer() noexcept;

  mutable std::mutex mutex_;         // guards the members below
  std::size_t level_ = 0;            // index of the size in use
  double small_ = 0;                 // of the size below the one in use: ns per byte
  double used_ = 0;                  // of the size in use: ns per byte, a mean in which older times count less and less
  unsigned wait_ = kFirstWait;       // pieces between the last two trials
  unsigned remaining_ = kFirstWait;  // pieces until the next trial
};

}  // namespace safetensors::io
