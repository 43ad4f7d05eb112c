// Chooses the faster way to gather short pieces from the page cache: a read per piece, or copies from a map. Which one
// is faster depends on the system and on how the page cache got the bytes: large pages are mapped with few page faults.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

namespace safetensors::plan {

// Compares the time per piece. Not thread-safe: each thread has its own.
class GatherChoice {
 public:
  enum class Way : std::uint8_t { read, map };

  // The way for the next pieces. Sometimes it is the slower one, because its time may have changed.
  [[nodiscard]] Way next() noexcept {
    ++asked_;
    if (map_.count == 0) return Way::map;
    if (read_.count == 0) return Way::read;
    const bool map_is_faster = map_.per_piece < read_.per_piece;
    return map_is_faster != (asked_ % kRetry == 0) ? Way::map : Way::read;
  }
  void record(Way way, std::uint64_t pieces, std::chrono::nanoseconds time) noexcept {
    (way == Way::map ? map_ : read_).add(static_cast<double>(time.count()) / static_cast<double>(pieces));
  }
  // The system has refused a map.
  void refuse_map() noexcept { map_ = {.per_piece = std::numeric_limits<double>::infinity(), .count = 1}; }

 private:
  static constexpr unsigned kRetry = 32;

  struct Time {
    double per_piece = 0;  // ns, a mean in which older times count less and less
    unsigned count = 0;
    void add(double time) noexcept {
      per_piece = count == 0 || std::isinf(per_piece) ? time : (per_piece + time) / 2;
      ++count;
    }
  };
  Time read_, map_;
  unsigned asked_ = 0;
};

}  // namespace safetensors::plan
