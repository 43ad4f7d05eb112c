// Loops over blocks of floats, in two variants with the same results, bit for bit: portable, and AVX2 with F16C.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "check/wide.h"
#include "format/dtype/cast_float.h"

namespace safetensors::check {

// Numbers per block. GCC at -O2 makes vector code only of loops with a constant count.
inline constexpr std::size_t kBlock = 1024;

// The codes of a block in their order: a code of a negative number has the lower bits inverted, so that codes as signed
// integers are in the order of their numbers. -0.0 is just below 0.0.
struct CodeRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::uint32_t zeros = 0;
  std::uint32_t smallest = 0;  // the smallest code of a positive |number|; 0 if all are zero. Not set for F64
};

// The sum of the numbers, and the sum of the squares of (number - center). `squares` has a relative error of less than
// 2^-45.
struct BlockSums {
  Wide sum;
  double squares = 0;
};

// The loops for one dtype. A block has kBlock codes in the byte order of the machine, at any address.
struct SumKernel {
  CodeRange (*range)(const std::byte* block) noexcept;
  // The sums of the first `count` numbers times `scale`, a power of two. All must be finite. `exact_sums` adds plain
  // doubles: is_exact() must hold. The sum of `wide_sums` has an error of about 2^-106 of the sum of all |number|.
  BlockSums (*exact_sums)(const std::byte* block, std::size_t count, double center, double scale) noexcept;
  BlockSums (*wide_sums)(const std::byte* block, std::size_t count, double center, double scale) noexcept;
};

// Returns whether all sums of numbers of a block are doubles without rounding: the numbers are multiples of the last
// bit of the smallest one, and 2^53 of these are more than the sum of all |number|.
template <class Float>
[[nodiscard]] constexpr bool is_exact(const CodeRange& range) noexcept {
  constexpr int spare = 53 - 10 - 1 - int{Float::kMantissa};
  static_assert(kBlock == 1 << 10);
  if constexpr (spare < 0) return false;
  const auto exponent = [](std::int64_t code) { return std::max(static_cast<int>(code >> Float::kMantissa), 1); };
  return exponent(std::max(range.max, ~range.min)) - exponent(range.smallest) <= spare;
}

// Float: Float64, Float32, Float16 or BFloat16 of format. avx2: whether to use AVX2 and F16C, which the processor must
// have. Ignored where the build has no such loops.
template <class Float>
[[nodiscard]] SumKernel sum_kernel(bool avx2) noexcept;

}  // namespace safetensors::check
