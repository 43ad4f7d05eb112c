// Arithmetic with overflow checks. Every product and every sum of numbers from a file or a caller uses these functions.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace safetensors::base {

// Store a * b or a + b in out. They return false if the result does not fit; out is then unspecified.
[[nodiscard]] inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}
[[nodiscard]] inline bool add(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_add_overflow(a, b, &out);
}

// Returns the number that the decimal digits say. nullopt: the text has other characters or none, or is above 2^64-1.
[[nodiscard]] inline std::optional<std::uint64_t> to_integer(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// Returns the absolute value. It is correct for INT64_MIN too, because the subtraction is unsigned.
[[nodiscard]] constexpr std::uint64_t magnitude(std::int64_t value) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? 0 - bits : bits;
}

}  // namespace safetensors::base
