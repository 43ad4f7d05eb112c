// Statistics of the values of tensors: range, mean, deviation, NaN, infinities, zeros, and a histogram.
#pragma once

#include "console.h"

#include <safetensors/error.h>
#include <safetensors/file.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace safetensors::cli {

// The sum high + low, where `low` is at most half a unit in the last place of `high`: about 106 bits.
struct Wide {
  double high = 0;
  double low = 0;
};

// The statistics of numbers. An element of C64 is two numbers, its real and its imaginary part. Minimum, maximum, mean
// and deviation are those of the finite numbers.
struct Summary {
  std::uint64_t finite = 0;
  std::uint64_t nan = 0;
  std::uint64_t positive_infinity = 0;
  std::uint64_t negative_infinity = 0;
  std::uint64_t zeros = 0;  // also -0.0
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  // The numbers below are those of the numbers times 2^-exponent. So no square is too large or too small for a double.
  int exponent = -2000;  // of zeros: less than that of any other number
  Wide sum = {};
  double squares = 0;  // sum of the squared distances from the mean

  [[nodiscard]] std::uint64_t infinities() const noexcept { return positive_infinity + negative_infinity; }
  [[nodiscard]] std::uint64_t count() const noexcept { return finite + nan + infinities(); }
  // The functions below return 0 if no number is finite. The error of the mean is at most one unit in the last place,
  // and 1e-30 of the mean of all |number|. The relative error of the deviation, that of the whole population, is at
  // most 1e-13.
  [[nodiscard]] double abs_max() const noexcept { return finite == 0 ? 0 : -min > max ? -min : max; }
  [[nodiscard]] double mean() const noexcept;
  [[nodiscard]] double deviation() const noexcept;
};

// The numbers with one power of two: 2^exponent <= |number| < 2^(exponent + 1).
struct StatsBin {
  std::uint64_t negative = 0;
  std::uint64_t positive = 0;
};

struct TensorStats : Summary {
  explicit TensorStats(Tensor of) : tensor(std::move(of)) {}

  Tensor tensor;
  std::map<int, StatsBin> histogram;  // by exponent. NaN, infinities and zeros are in no bin
};

// Computes the statistics of the tensors that `select` chooses, in their order. Each tensor is read once, by several
// threads, whose number changes no result. Errors: those of for_each_chunk() and of Tensor::read().
[[nodiscard]] Result<std::vector<TensorStats>> stats(Tensors tensors, bool histogram, Console& console,
                                                     const std::function<bool(const TensorInfo&)>& select);

}  // namespace safetensors::cli
