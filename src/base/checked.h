// Arithmetic with overflow checks. Every product and every sum of numbers from a file or a caller uses these functions.
#pragma once

#include <concepts>
#include <cstdint>

namespace safetensors::base {

// Store a * b or a + b in out. They return false if the result does not fit; out is then unspecified.
[[nodiscard]] inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}
[[nodiscard]] inline bool add(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_add_overflow(a, b, &out);
}

// Returns the absolute value. It is correct for INT64_MIN too, because the subtraction is unsigned.
[[nodiscard]] constexpr std::uint64_t magnitude(std::int64_t value) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? 0 - bits : bits;
}

}  // namespace safetensors::base
