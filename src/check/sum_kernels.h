// Loops over blocks of floats, in two variants with the same results, bit for bit: portable, and AVX2 with F16C.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/cast_float.h"

namespace safetensors::check {

// Numbers per block. GCC at -O2 makes vector code only of loops with a constant count.
inline constexpr std::size_t kBlock = 1024;

// The codes of a block in their order: a code of a negative number has the lower bits inverted, so that codes as signed
// integers are in the order of their numbers. -0.0 is just below 0.0.
struct CodeRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::uint32_t zeros = 0;
};

// Sums of (number - center) and of its square.
struct BlockSums {
  double sum = 0;
  double squares = 0;
};

inline constexpr double kMinFast = 0x1p-40;
inline constexpr double kMaxFast = 0x1p60;

// The loops for one dtype. A block has kBlock codes in the byte order of the machine, at any address.
struct SumKernel {
  CodeRange (*range)(const std::byte* block) noexcept;
  BlockSums (*sums)(const std::byte* block, double center) noexcept;  // all numbers must be finite
  // As sums(), for F16 and BF16, else null. Adds four numbers, or their squares, as floats, and the results as doubles:
  // twice as fast, and the results have a relative error of up to 2^-22. kMinFast <= |number| <= kMaxFast must hold for
  // the largest number.
  BlockSums (*fast_sums)(const std::byte* block, double center) noexcept;
};

// Float: Float64, Float32, Float16 or BFloat16 of format. avx2: whether to use AVX2 and F16C, which the processor must
// have. Ignored where the build has no such loops.
template <class Float>
[[nodiscard]] SumKernel sum_kernel(bool avx2) noexcept;

}  // namespace safetensors::check
