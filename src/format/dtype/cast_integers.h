// Casts between integers: I8, I16, I32, I64, U8, U16, U32 and U64.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>
#include <cstdint>

namespace safetensors::format {

// A cast from one integer dtype to another, as numbers. So a few loops serve all pairs. `value` is the element as an
// unsigned number of from_bits. The element fits into the new dtype if (value + bias) & mask is 0, modulo 2^from_bits.
struct IntegerCast {
  unsigned from_bits = 0;
  unsigned to_bits = 0;
  bool from_signed = false;  // a wider result has copies of the sign bit
  std::uint64_t bias = 0;
  std::uint64_t mask = 0;  // 0: every value fits
};

// Returns whether the dtype is one of the eight integers. BOOL is not one.
[[nodiscard]] bool is_integer_dtype(Dtype dtype) noexcept;

// Both dtypes must be integers.
[[nodiscard]] IntegerCast integer_cast(Dtype from, Dtype to) noexcept;

// Converts count elements, as try_cast() does. Returns the index of the first element that does not fit, or count.
[[nodiscard]] std::size_t cast_integers(const IntegerCast& cast, const std::byte* in, std::byte* out,
                                        std::size_t count) noexcept;

}  // namespace safetensors::format
