// Elements of one float dtype as another.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>

namespace safetensors::format {

// Whether elements of `from` can be turned into `to`. Equal dtypes: true, a copy. Else both are of F64, F32, F16, BF16
// and the F8 dtypes; to F8_E8M0 nothing is cast.
[[nodiscard]] bool castable(Dtype from, Dtype to) noexcept;

// Turns `count` elements, little-endian on any machine. castable(from, to). Memory of any alignment; the ranges do not
// overlap. F4 and F6, which are only copied: count * bits(from) is a multiple of 8.
// To fewer bits a number is rounded once, to nearest even, whatever the thread's floating-point mode, whose flags and
// traps see nothing of it. Too large for F64, F32, F16, BF16 and F8_E5M2: infinity; for F8_E4M3: its largest number, of
// infinity too; for the FNUZ dtypes: NaN, of infinity too. NaN stays NaN, quiet (from BF16 to F32: as it was) and with
// its sign if both dtypes have one for it.
void cast(Dtype from, const std::byte* in, Dtype to, std::byte* out, std::size_t count) noexcept;

}  // namespace safetensors::format
