// Chooses the faster way to gather short pieces from the page cache: a read per piece, or copies from a map. Which one
// is faster depends on the system and on how the page cache got the bytes: large pages are mapped with few page faults.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

namespace safetensors::plan {

// Compares the time per piece. Not thread-safe: each thread has its own.
class GatherChoice {
 public:
  enum class Way : std::uint8_t { read, map };

  // Returns the way for the next pieces. Sometimes returns the slower one, because its time may have changed.
  [[nodiscard]] Way next() noexcept {
    ++asked_;
    if (!map_) return Way::map;
    if (!read_) return Way::read;
    const bool map_is_faster = *map_ < *read_;
    return map_is_faster != (asked_ % kRetry == 0) ? Way::map : Way::read;
  }
  void record(Way way, std::uint64_t pieces, std::chrono::nanoseconds time) noexcept {
    const double per_piece = static_cast<double>(time.count()) / static_cast<double>(pieces);
    std::optional<double>& mean = way == Way::map ? map_ : read_;
    mean = mean && *mean != kRefused ? (*mean + per_piece) / 2 : per_piece;
  }
  // The system has refused a map.
  void refuse_map() noexcept { map_ = kRefused; }

 private:
  static constexpr unsigned kRetry = 32;

  static constexpr double kRefused = std::numeric_limits<double>::infinity();

  std::optional<double> read_, map_;  // ns per piece, means in which older times count less and less
  unsigned asked_ = 0;
};

}  // namespace safetensors::plan
