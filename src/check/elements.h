// Elements of every dtype as numbers that can be compared.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace safetensors::check {

// The number of real numbers of an element: 2 for C64, else 1.
[[nodiscard]] constexpr std::size_t components_of(Dtype dtype) noexcept {
  return dtype == Dtype::C64 ? 2 : 1;
}

// An integer of any integer dtype.
struct Integer {
  std::uint64_t magnitude = 0;
  bool negative = false;

  bool operator==(const Integer&) const = default;
};
// Returns whether integers() takes the dtype: integers, and BOOL, whose values are those of its bytes.
[[nodiscard]] bool is_integer(Dtype dtype) noexcept;
void integers(Dtype dtype, std::span<const std::byte> bytes, std::span<Integer> values) noexcept;

// Converts elements to double. bytes: little-endian, packed, a whole number of bytes. values: components_of(dtype)
// numbers per element. Integers of more than 53 bits are rounded. A BOOL is the value of its byte.
void to_double(Dtype dtype, std::span<const std::byte> bytes, std::span<double> values) noexcept;

// Returns whether an element has the same bits in both.
[[nodiscard]] bool same_bits(Dtype dtype, std::span<const std::byte> one, std::span<const std::byte> other,
                             std::size_t element) noexcept;

// Returns whether ordinals() takes the dtype: all floats, and C64.
[[nodiscard]] bool has_ordinals(Dtype dtype) noexcept;
// Numbers the floats of a dtype in their order: neighbours have neighbouring numbers, and 0.0 and -0.0 have number 0.
// The number of a NaN is unspecified. F8_E8M0 has no sign. Arguments as above.
void ordinals(Dtype dtype, std::span<const std::byte> bytes, std::span<std::int64_t> numbers) noexcept;

}  // namespace safetensors::check
