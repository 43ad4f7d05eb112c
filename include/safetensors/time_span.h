/// @file
/// Defines TimeSpan, the type of parameters that are lengths of time.
///
/// Thread-safety: a TimeSpan is a value.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// A length of time in whole milliseconds. Every duration of std::chrono converts to it, such as
/// `std::chrono::seconds(5)`. A part of a millisecond counts as a whole one. Values that do not fit become the largest
/// or smallest value. A duration that is not a number becomes 0.
///
/// This header does not include `chrono`, which makes every file that includes it slow to compile.
class TimeSpan {
 public:
  /// Makes a span of 0.
  constexpr TimeSpan() noexcept = default;
  /// Converts a duration of std::chrono, and rounds away from 0.
  template <class Duration, class = decltype(std::declval<const Duration&>().count()),
            class = decltype(Duration::period::num + Duration::period::den)>
  constexpr TimeSpan(const Duration& duration) noexcept {  // NOLINT(google-explicit-constructor)
    using Count = typename Duration::rep;
    if constexpr (Duration::period::num == 1 && Duration::period::den == 1000 && std::is_integral_v<Count> &&
                  std::is_signed_v<Count>) {
      milliseconds_ = duration.count();
    } else {
      milliseconds_ = rounded(static_cast<long double>(duration.count()) * (Duration::period::num * 1000.0L) /
                              Duration::period::den);
    }
  }
  /// Makes a span of this many hours.
  [[nodiscard]] static constexpr TimeSpan hours(std::int32_t count) noexcept {
    TimeSpan span;
    span.milliseconds_ = std::int64_t{count} * 3'600'000;
    return span;
  }

  /// Returns the length in milliseconds.
  [[nodiscard]] constexpr std::int64_t milliseconds() const noexcept { return milliseconds_; }

 private:
  static constexpr std::int64_t rounded(long double value) noexcept {
    if (value >= static_cast<long double>(INT64_MAX)) return INT64_MAX;
    if (value <= static_cast<long double>(INT64_MIN)) return INT64_MIN;
    if (value != value) return 0;
    const auto whole = static_cast<std::int64_t>(value);
    const auto part = value - static_cast<long double>(whole);
    return part > 0 ? whole + 1 : part < 0 ? whole - 1 : whole;
  }

  std::int64_t milliseconds_ = 0;
};

}  // namespace v0
}  // namespace safetensors
