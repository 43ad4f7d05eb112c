// Statistics of many numbers, from the statistics of parts of them.
#pragma once

#include <safetensors/stats.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "check/wide.h"

namespace safetensors::check {

// Large and small numbers are scaled by a power of two, so that their squares are normal doubles.
inline constexpr int kScaleExponent = 600;

// Returns the exponent of the scale of numbers of up to this magnitude. Zeros get the largest scale, because they must
// not take digits from small numbers.
[[nodiscard]] constexpr int scale_exponent(double largest) noexcept {
  if (largest > 0x1p400) return -kScaleExponent;
  return largest < 0x1p-400 ? kScaleExponent : 0;
}

// The statistics of numbers. Minimum and maximum are those of TensorStats if there is a finite number.
struct Summary {
  std::uint64_t finite = 0;
  std::uint64_t nan = 0;
  std::uint64_t positive_infinity = 0;
  std::uint64_t negative_infinity = 0;
  std::uint64_t zeros = 0;
  double min = 0;
  double max = 0;
  int scale = 0;  // the numbers below are those of the numbers times 2^scale: a multiple of kScaleExponent
  Wide sum = {};
  Wide squares = {};  // sum of the squared distances from the mean

  // Adds the statistics of other numbers. The result depends on the order of calls in its last bits.
  void add(const Summary& other) noexcept;
  // Adds one number that is not finite.
  void add_special(double number) noexcept;

  // Mean and deviation of the finite numbers. `finite` must not be 0. The error of the mean is at most one unit in the
  // last place plus 2^-100 of the mean of all |number|. The relative error of the deviation is at most 2^-45.
  [[nodiscard]] double mean() const noexcept;
  [[nodiscard]] double standard_deviation() const noexcept;

 private:
  void scale_to(int wanted) noexcept;
};

// The number of positive and of negative numbers per power of two.
class ExponentCounts {
 public:
  ExponentCounts() : counts_(2 * std::size_t{kMax - kMin + 1}) {}

  // number: finite and not 0.
  void add(double number, std::uint64_t count = 1) noexcept {
    const auto bits = std::bit_cast<std::uint64_t>(number);
    const auto mantissa = bits & ((std::uint64_t{1} << 52) - 1);
    const auto field = static_cast<int>(bits >> 52 & 0x7FF);
    add(field != 0 ? field - 1023 : kMin + 63 - std::countl_zero(mantissa), bits >> 63 != 0, count);
  }
  void add(int exponent, bool negative, std::uint64_t count) noexcept {
    counts_[2 * static_cast<std::size_t>(exponent - kMin) + (negative ? 1 : 0)] += count;
  }

  // Moves the counts to the bins of a tensor, which are sorted and never empty.
  void move_to(std::vector<StatsBin>& bins);

 private:
  static constexpr int kMin = -1074;
  static constexpr int kMax = 1023;
  std::vector<std::uint64_t> counts_;
};

// Computes the statistics of elements. Keeps buffers for the next call.
class Summarizer {
 public:
  explicit Summarizer(bool with_histogram) : with_histogram_(with_histogram) {}

  // Adds the elements, which are little-endian, packed, and a whole number of bytes, to the summary and to exponents().
  void add(Dtype dtype, const std::byte* bytes, std::size_t size, Summary& summary);

  [[nodiscard]] ExponentCounts& exponents() noexcept { return exponents_; }

 private:
  const bool with_histogram_;
  ExponentCounts exponents_;
};

}  // namespace safetensors::check
