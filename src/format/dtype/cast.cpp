// Chooses the loops for a cast. For floats: AVX2 with F16C if the processor has both, else portable loops. Integers
// have loops of their own.
//
// Pairs of floats without a kernel of their own go through F32. F32 holds every number of the smaller floats exactly,
// so the result is still rounded only once.
#include "format/dtype/cast.h"

#include <safetensors/element.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "format/dtype/cast_integers.h"
#include "format/dtype/cast_kernels.h"

namespace safetensors {
namespace format {
namespace {

bool has_kernel(Dtype from, Dtype to) noexcept {
  return cast_kernel(from, to, Instructions::portable) != nullptr;
}

// The value of an integer. negative: `magnitude` is below zero.
struct Number {
  std::uint64_t magnitude;
  bool negative;
};

std::string to_text(const Number& number) {
  return base::concat({(number.negative ? "-" : ""), number.magnitude});
}

// cast: one from the dtype of the element.
Number number_at(const IntegerCast& cast, const std::byte* element) noexcept {
  std::uint64_t value = 0;
  for (unsigned i = cast.from_bits / 8; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(element[i]);
  const std::uint64_t sign = std::uint64_t{1} << (cast.from_bits - 1);
  if (!cast.from_signed || (value & sign) == 0) return {value, false};
  return {sign - (value - sign), true};
}

// "0 to 255"
std::string range_of(Dtype dtype) {
  const IntegerCast cast = integer_cast(dtype, dtype);
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - cast.from_bits);
  if (!cast.from_signed) return base::concat({"0 to ", all});
  return base::concat({"-", all / 2 + 1, " to ", all / 2});
}

// "[3, 17]", or "[]" for a scalar. Shortened like a shape.
std::string position_in(ShapeView shape, std::uint64_t index) {
  std::vector<std::uint64_t> position(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; index /= shape[i]) position[i] = index % shape[i];
  return to_string(ShapeView(position));
}

// The value of a float whose codes are all finite numbers.
float finite_float(std::uint32_t code, unsigned exponent_bits, unsigned mantissa_bits, int bias) noexcept {
  const std::uint32_t mantissa = code & ((1U << mantissa_bits) - 1);
  const std::uint32_t exponent = code >> mantissa_bits & ((1U << exponent_bits) - 1);
  const std::uint32_t whole = exponent == 0 ? mantissa : mantissa | 1U << mantissa_bits;
  const int scale = static_cast<int>(std::max(exponent, 1U)) - bias - static_cast<int>(mantissa_bits);
  const float magnitude = std::ldexp(static_cast<float>(whole), scale);
  return (code >> (exponent_bits + mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
}

}  // namespace

bool castable(Dtype from, Dtype to) noexcept {
  if (from == to || has_kernel(from, to)) return true;
  if (is_integer_dtype(from)) return is_integer_dtype(to);
  return has_kernel(from, Dtype::F32) && has_kernel(Dtype::F32, to);
}

void cast(Dtype from, const std::byte* in, Dtype to, std::byte* out, std::size_t count) noexcept {
  const Instructions best = available(Instructions::avx2) ? Instructions::avx2 : Instructions::portable;
  cast_with(best, from, in, to, out, count);
}

std::size_t try_cast(Dtype from, const std::byte* in, Dtype to, std::byte* out, std::size_t count) noexcept {
  if (from != to && is_integer_dtype(from)) return cast_integers(integer_cast(from, to), in, out, count);
  cast(from, in, to, out, count);
  return count;
}

Error out_of_range(Dtype from, const std::byte* element, Dtype to, std::uint64_t index, ShapeView shape) {
  return base::make_error(
      Errc::value_out_of_range,
      {"cannot cast ", to_string(from), " to ", to_string(to), ": element ", position_in(shape, index), " is ",
       to_text(number_at(integer_cast(from, to), element)), ", the range of ", to_string(to), " is ", range_of(to)});
}

}  // namespace format

inline namespace v0 {

// Every code of at most 16 bits is a float exactly. Floats of 4 and 6 bits have no cast.
float to_float(Dtype dtype, std::uint16_t bits) noexcept {
  if (dtype == Dtype::F6_E2M3) return format::finite_float(bits, 2, 3, 1);
  if (dtype == Dtype::F6_E3M2) return format::finite_float(bits, 3, 2, 3);
  if (dtype == Dtype::F4) return format::finite_float(bits, 2, 1, 1);
  if (safetensors::bits(dtype) > 16 || !format::castable(dtype, Dtype::F32))
    return std::numeric_limits<float>::quiet_NaN();
  const std::byte in[2] = {static_cast<std::byte>(bits), static_cast<std::byte>(bits >> 8)};
  std::byte out[4];
  format::cast(dtype, in, Dtype::F32, out, 1);
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(out[i]) << (8 * i);
  return std::bit_cast<float>(value);
}

}  // namespace v0
}  // namespace safetensors
