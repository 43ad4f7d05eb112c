// A slow reference for float dtypes: the value of an element, and the element nearest to a number, found by comparing
// numbers.
#pragma once

#include <safetensors/dtype.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace safetensors::test {

struct FloatLayout {
  unsigned exponent_bits;
  unsigned mantissa_bits;
  int bias;
  std::uint64_t last;       // of the finite codes without sign, which ascend from 0
  std::uint64_t too_large;  // what a number becomes that is too large, without sign
  bool fnuz = false;        // one NaN, in the place of -0
  [[nodiscard]] unsigned sign_at() const { return exponent_bits + mantissa_bits; }
};

inline FloatLayout layout_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64:
      return {11, 52, 1023, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000};
    case Dtype::F32:
      return {8, 23, 127, 0x7F7FFFFF, 0x7F800000};
    case Dtype::F16:
      return {5, 10, 15, 0x7BFF, 0x7C00};
    case Dtype::BF16:
      return {8, 7, 127, 0x7F7F, 0x7F80};
    case Dtype::F8_E4M3:
      return {4, 3, 7, 0x7E, 0x7E};
    case Dtype::F8_E5M2:
      return {5, 2, 15, 0x7B, 0x7C};
    case Dtype::F8_E4M3FNUZ:
      return {4, 3, 8, 0x7F, 0x80, true};
    case Dtype::F8_E5M2FNUZ:
      return {5, 2, 16, 0x7F, 0x80, true};
    default:
      throw std::logic_error("no float with a sign");
  }
}

// A finite code without sign; one past the last gives what would come next.
inline double magnitude_of(const FloatLayout& layout, std::uint64_t code) {
  const std::uint64_t exponent = code >> layout.mantissa_bits;
  const std::uint64_t fraction = code & ((std::uint64_t{1} << layout.mantissa_bits) - 1);
  const std::uint64_t whole = exponent == 0 ? fraction : fraction | std::uint64_t{1} << layout.mantissa_bits;
  const int scale =
      static_cast<int>(exponent == 0 ? 1 : exponent) - layout.bias - static_cast<int>(layout.mantissa_bits);
  return std::ldexp(static_cast<double>(whole), scale);
}

inline double decode(Dtype dtype, std::uint64_t code) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (dtype == Dtype::F8_E8M0) return code == 0xFF ? nan : std::ldexp(1.0, static_cast<int>(code) - 127);
  const FloatLayout layout = layout_of(dtype);
  const std::uint64_t magnitude = code & ((std::uint64_t{1} << layout.sign_at()) - 1);
  const bool negative = code >> layout.sign_at() != 0;
  if (layout.fnuz && negative && magnitude == 0) return nan;
  double value = nan;
  if (magnitude <= layout.last) value = magnitude_of(layout, magnitude);
  if (magnitude == layout.last + 1 && layout.too_large == magnitude) value = std::numeric_limits<double>::infinity();
  return std::copysign(value, negative ? -1.0 : 1.0);
}

// value, which is not NaN, in dtype: nearest, ties to the even code.
inline std::uint64_t encode(Dtype dtype, double value) {
  const FloatLayout layout = layout_of(dtype);
  const double size = std::fabs(value);
  std::uint64_t below = 0;  // the largest code that is not larger than value
  std::uint64_t above = layout.last + 1;
  while (above - below > 1) {
    const std::uint64_t middle = below + (above - below) / 2;
    (magnitude_of(layout, middle) <= size ? below : above) = middle;
  }
  // Exact: a number of dtype with one bit more. From F64 to F64 nothing is rounded.
  const double halfway = magnitude_of(layout, below) / 2 + magnitude_of(layout, below + 1) / 2;
  std::uint64_t code = size > halfway || (size == halfway && below % 2 != 0) ? below + 1 : below;
  if (code > layout.last) code = layout.too_large;
  if (layout.fnuz && (code == 0 || code == layout.too_large)) return code;
  return code | (std::signbit(value) ? std::uint64_t{1} << layout.sign_at() : 0);
}

}  // namespace safetensors::test
