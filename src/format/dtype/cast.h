// Converts elements of one float dtype to another.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>

namespace safetensors::format {

// Returns whether elements of `from` can be converted to `to`. Equal dtypes: true, the cast is a copy. Different
// dtypes: both must be F64, F32, F16, BF16 or an F8 dtype, and `to` must not be F8_E8M0.
[[nodiscard]] bool castable(Dtype from, Dtype to) noexcept;

// Converts `count` elements. castable(from, to) must be true. Elements are little-endian on every machine. The memory
// needs no alignment, and the two ranges must not overlap. F4 and F6 can only be copied, and for them count *
// bits(from) must be a multiple of 8.
//
// A conversion to fewer bits rounds once, to nearest even, in every floating-point mode of the thread. It sets no flags
// and springs no traps. A number that is too large becomes:
//   F64, F32, F16, BF16, F8_E5M2: infinity
//   F8_E4M3: its largest number; infinity becomes this number, too
//   F8_E4M3FNUZ, F8_E5M2FNUZ: NaN; infinity becomes NaN, too
// NaN becomes a quiet NaN. It keeps its sign if both dtypes have signed NaNs. Only BF16 to F32 keeps a NaN bit for bit.
void cast(Dtype from, const std::byte* in, Dtype to, std::byte* out, std::size_t count) noexcept;

}  // namespace safetensors::format
