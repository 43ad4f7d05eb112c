/// @file
/// Statistics of the values of tensors: range, mean, deviation, NaN, infinities, zeros, and a histogram.
#pragma once

#include <safetensors/callback.h>
#include <safetensors/error.h>
#include <safetensors/file.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// Options of stats().
struct StatsOptions {
  /// Also count the numbers per power of two, in TensorStats::histogram. Takes longer.
  bool histogram = false;
  /// Returns true for the tensors to read. Null: all tensors. Must not throw.
  Callback<bool(const Tensor& tensor)> select = nullptr;
  /// Number of threads that read and compute, including the calling thread. 0: one per usable processor, at most 16.
  unsigned threads = 0;
  /// Called with the number of bytes read and the total. Runs in the calling thread. Return false to cancel
  /// (Errc::cancelled). Must not throw.
  Callback<bool(std::uint64_t completed, std::uint64_t total)> progress = nullptr;
};

/// The numbers of a tensor with 2^exponent <= |number| < 2^(exponent + 1).
struct StatsBin {
  int exponent = 0;            ///< from -1074 to 1023
  std::uint64_t negative = 0;  ///< number of negative numbers
  std::uint64_t positive = 0;  ///< number of positive numbers
};

/// Statistics of one tensor.
///
/// Every element is a number: BOOL is the value of its byte, and an integer of more than 53 bits is rounded to the
/// nearest double. An element of C64 is two numbers, its real and its imaginary part. Minimum, maximum, mean and
/// deviation are those of the finite numbers. They are 0 if there are none.
struct TensorStats {
  Tensor tensor;                        ///< the tensor
  std::uint64_t count = 0;              ///< count of the numbers: the elements, or for C64 twice as many
  std::uint64_t nan = 0;                ///< number of NaN
  std::uint64_t positive_infinity = 0;  ///< number of positive infinities
  std::uint64_t negative_infinity = 0;  ///< number of negative infinities
  std::uint64_t zeros = 0;              ///< number of zeros, also of -0.0
  double min = 0;                       ///< smallest finite number; 0 for -0.0
  double max = 0;                       ///< largest finite number; 0 for -0.0
  double mean = 0;                      ///< arithmetic mean of the finite numbers
  /// Square root of the mean of the squared distances of the finite numbers from their mean (the deviation of the whole
  /// population).
  double standard_deviation = 0;
  /// The bins that are not empty, by exponent. Only with StatsOptions::histogram. NaN, infinities and zeros are in no
  /// bin.
  std::vector<StatsBin> histogram = {};

  /// Returns the number of finite numbers.
  [[nodiscard]] std::uint64_t finite() const noexcept { return count - nan - positive_infinity - negative_infinity; }
  /// Returns the largest absolute value of the finite numbers.
  [[nodiscard]] double abs_max() const noexcept { return -min > max ? -min : max; }
  /// Returns the square of the standard deviation. Only numbers of F64 can make it infinity, or 0 for a deviation that
  /// is not 0.
  [[nodiscard]] double variance() const noexcept { return standard_deviation * standard_deviation; }
};

/// Computes statistics of the values of tensors:
/// @code
/// const File file = File::open("model.safetensors").value();
/// for (const TensorStats& found : stats(file.tensors()).value()) {
///   if (found.nan > 0) std::cout << found.tensor.name() << ": " << found.nan << " NaN\n";
/// }
/// @endcode
///
/// The result has the selected tensors in their order. Each tensor is read once, in chunks of 768 KiB. The memory is
/// about 1 MiB per thread, and the result. The error of the mean is at most one unit in its last place, and 1e-30 of
/// the mean of all |number|, which counts if large numbers cancel each other. The relative error of the deviation is at
/// most 1e-13, also if the mean is much larger. The result does not depend on the number of threads. Errors: cancelled,
/// out_of_memory, dtype_mismatch (Dtype::UNKNOWN), and those of Tensor::read().
[[nodiscard]] SAFETENSORS_API Result<std::vector<TensorStats>> stats(Tensors tensors,
                                                                     const StatsOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
