// Samples of the values of a tensor, for the heat maps of `inspect --values`.
#pragma once

#include "input.h"

#include <safetensors/error.h>
#include <safetensors/slice.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace safetensors::cli {

inline constexpr std::uint64_t kMaxSamples = 128;  // per dimension

// A slice of a tensor as a matrix: the first dimension is the rows, all others are the columns. A slice of one
// dimension is one row.
struct ValueSample {
  std::size_t tensor = 0;  // index in Input::tensors()
  Shape shape;             // of the slice
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  // The values, row after row. The sampled rows are (2i + 1) * rows / (2n) for i < n = min(rows, kMaxSamples), rounded
  // down, and the columns are chosen in the same way. The value of a C64 is its absolute value.
  std::vector<double> values;
};

// Reads the sample of one tensor, and no bytes outside of the slice. The sample of an empty slice has no values.
// Errors: those of Slice::resolve(), read_failed, file_truncated, cancelled (Interrupt::caught()).
[[nodiscard]] Result<ValueSample> sample_values(const File& file, const TensorInfo& tensor, const Slice& slice);

}  // namespace safetensors::cli
