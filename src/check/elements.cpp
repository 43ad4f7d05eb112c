// Converts elements one by one through their bits. Floats that casts know go through the cast to F64.
#include "check/elements.h"

#include <safetensors/element.h>

#include <algorithm>
#include <cstring>

#include "base/little_endian.h"
#include "format/dtype/cast.h"

namespace safetensors::check {
namespace {

// The bits of an element, which has up to 64. Elements of 4 and 6 bits follow each other from the lowest bit up.
std::uint64_t bits_at(std::span<const std::byte> bytes, std::uint64_t element, unsigned width) noexcept {
  std::byte window[8] = {};
  const std::uint64_t first = element * width;
  const auto at = static_cast<std::size_t>(first / 8);
  std::memcpy(window, bytes.data() + at, std::min<std::size_t>(sizeof window, bytes.size() - at));
  const std::uint64_t found = base::load_u64(window) >> first % 8;
  return width == 64 ? found : found & ((std::uint64_t{1} << width) - 1);
}

Integer to_integer(Dtype dtype, std::uint64_t found) noexcept {
  const unsigned width = bits(dtype);
  const bool is_signed = dtype == Dtype::I8 || dtype == Dtype::I16 || dtype == Dtype::I32 || dtype == Dtype::I64;
  if (!is_signed || found >> (width - 1) == 0) return {found, false};
  const std::uint64_t beyond = width == 64 ? 0 : ~std::uint64_t{0} << width;
  return {0 - (found | beyond), true};
}

bool is_small_float(Dtype dtype) noexcept {
  return dtype == Dtype::F4 || dtype == Dtype::F6_E2M3 || dtype == Dtype::F6_E3M2;
}

// The float dtype of the parts of an element.
Dtype part_dtype(Dtype dtype) noexcept {
  return dtype == Dtype::C64 ? Dtype::F32 : dtype;
}

}  // namespace

void to_double(Dtype dtype, std::span<const std::byte> bytes, std::span<double> values) noexcept {
  const Dtype part = part_dtype(dtype);
  if (format::castable(part, Dtype::F64)) {
    format::cast(part, bytes.data(), Dtype::F64, reinterpret_cast<std::byte*>(values.data()), values.size());
    if constexpr (std::endian::native != std::endian::little) {
      for (double& value : values) {
        const std::uint64_t found = base::load_u64(reinterpret_cast<const std::byte*>(&value));
        std::memcpy(&value, &found, sizeof value);
      }
    }
    return;
  }
  const unsigned width = bits(dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t found = bits_at(bytes, i, width);
    if (is_small_float(dtype)) {
      values[i] = static_cast<double>(to_float(dtype, static_cast<std::uint16_t>(found)));
    } else {
      const Integer integer = to_integer(dtype, found);
      const auto magnitude = static_cast<double>(integer.magnitude);
      values[i] = integer.negative ? -magnitude : magnitude;
    }
  }
}

bool is_integer(Dtype dtype) noexcept {
  return !has_ordinals(dtype);
}

void integers(Dtype dtype, std::span<const std::byte> bytes, std::span<Integer> values) noexcept {
  const unsigned width = bits(dtype);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_integer(dtype, bits_at(bytes, i, width));
}

bool same_bits(Dtype dtype, std::span<const std::byte> one, std::span<const std::byte> other,
               std::size_t element) noexcept {
  const unsigned width = bits(dtype);
  return bits_at(one, element, width) == bits_at(other, element, width);
}

bool has_ordinals(Dtype dtype) noexcept {
  return is_small_float(dtype) || format::castable(part_dtype(dtype), Dtype::F64);
}

void ordinals(Dtype dtype, std::span<const std::byte> bytes, std::span<std::int64_t> numbers) noexcept {
  const Dtype part = part_dtype(dtype);
  const unsigned width = bits(part);
  const std::uint64_t sign = part == Dtype::F8_E8M0 ? 0 : std::uint64_t{1} << (width - 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t found = bits_at(bytes, i, width);
    const auto magnitude = static_cast<std::int64_t>(found & ~sign);
    numbers[i] = (found & sign) != 0 ? -magnitude : magnitude;
  }
}

}  // namespace safetensors::check
