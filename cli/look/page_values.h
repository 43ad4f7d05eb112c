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
  // Of row (2i + 1) * rows / (2n) for i < n = min(rows, kMaxSamples), and of columns in the same way. Row after row. A
  // C64 is its absolute value.
  std::vector<double> values;
};

// Reads the sample of one tensor, and at most the bytes of the slice for it. Has no values if the slice is empty.
// Errors: those of Slice::resolve(), read_failed, file_truncated, cancelled (Interrupt::caught()).
[[nodiscard]] Result<ValueSample> sample_values(const File& file, const TensorInfo& tensor, const Slice& slice);

}  // namespace safetensors::cli
