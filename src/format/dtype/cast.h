// Converts elements of one float dtype to another, and of one integer dtype to another.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/shape.h>

#include <cstddef>
#include <cstdint>

namespace safetensors::format {

// Returns whether elements of `from` can be converted to `to`. Equal dtypes: true, the cast is a copy. Different
// dtypes: both must be integers of 8 to 64 bits, or both must be F64, F32, F16, BF16 or an F8 dtype, and `to` must not
// be F8_E8M0. A float is not cast to an integer, because there is no one way to round it. An integer is not cast to a
// float, because a quantized weight needs its scale, too.
[[nodiscard]] bool castable(Dtype from, Dtype to) noexcept;

// Converts `count` elements. castable(from, to) must be true, and different dtypes must be floats. Elements are
// little-endian on every machine. The memory needs no alignment, and the two ranges must not overlap. F4 and F6 can
// only be copied, and for them count * bits(from) must be a multiple of 8.
//
// A conversion to fewer bits rounds once, to nearest even, in every floating-point mode of the thread. It sets no flags
// and springs no traps. A number that is too large becomes:
//   F64, F32, F16, BF16, F8_E5M2: infinity
//   F8_E4M3: its largest number; infinity becomes this number, too
//   F8_E4M3FNUZ, F8_E5M2FNUZ: NaN; infinity becomes NaN, too
// NaN becomes a quiet NaN. It keeps its sign if both dtypes have signed NaNs. Only BF16 to F32 keeps a NaN bit for bit.
void cast(Dtype from, const std::byte* in, Dtype to, std::byte* out, std::size_t count) noexcept;

// Converts `count` elements, as cast() does, also those of integers. castable(from, to) must be true. Returns `count`.
// If a value does not fit into the new dtype, returns the index of the first such element instead. The contents of
// `out` are then unspecified.
[[nodiscard]] std::size_t try_cast(Dtype from, const std::byte* in, Dtype to, std::byte* out,
                                   std::size_t count) noexcept;

// Returns the error value_out_of_range for an element that try_cast() found. index: that of the element in the tensor,
// in C order. shape: the shape of the tensor. The message has the position of the element in this shape. May throw
// std::bad_alloc.
[[nodiscard]] Error out_of_range(Dtype from, const std::byte* element, Dtype to, std::uint64_t index, ShapeView shape);

}  // namespace safetensors::format
