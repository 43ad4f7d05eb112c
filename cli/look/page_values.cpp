// Takes evenly spaced elements of a slice, not means of blocks: a mean of weights is near 0 and shows nothing. Reads
// the slice in order and skips the bytes between the elements, so memory is bounded.
//
// Elements of 4 and 6 bits are read in groups of whole bytes. A slice begins and ends on byte boundaries, so its groups
// are those of the tensor.
#include "page_values.h"

#include "interrupt.h"
#include "slice_stream.h"
#include "text/element_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>

namespace safetensors::cli {
namespace {

// The value of a text of ElementText: a number, "true", "false", or "1.0+2.0j".
double value_of(const std::string& text) {
  if (text == "true") return 1;
  if (text == "false") return 0;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end == '\0') return value;
  return std::hypot(value, std::strtod(end, nullptr));
}

// Reads single elements of a slice, in ascending order.
class ElementReader {
 public:
  ElementReader(const File& file, const TensorInfo& tensor, const ResolvedSlice& slice)
      : stream_(file, tensor, slice), text_(tensor.dtype, false) {
    const std::uint64_t element_bits = bits(tensor.dtype);
    group_bytes_ = std::lcm(element_bits, std::uint64_t{8}) / 8;
    group_elements_ = group_bytes_ * 8 / element_bits;
  }

  [[nodiscard]] Result<double> read(std::uint64_t element) {
    const std::uint64_t group = element / group_elements_;
    const std::span<std::byte> bytes = std::span(group_).first(static_cast<std::size_t>(group_bytes_));
    if (group >= next_group_) {
      stream_.skip((group - next_group_) * group_bytes_);
      if (Status status = stream_.read(bytes); !status) return status.error();
      next_group_ = group + 1;
    }
    std::string text;
    text_.append(text, bytes, element % group_elements_);
    return value_of(text);
  }

 private:
  SliceStream stream_;
  ElementText text_;
  std::uint64_t group_bytes_ = 0;
  std::uint64_t group_elements_ = 0;
  std::uint64_t next_group_ = 0;  // the first group that is not read yet
  std::array<std::byte, 8> group_{};
};

}  // namespace

Result<ValueSample> sample_values(const File& file, const TensorInfo& tensor, const Slice& slice) {
  const Result<ResolvedSlice> resolved = slice.resolve(tensor.dtype, tensor.shape);
  if (!resolved) return resolved.error();
  ValueSample sample{.shape = resolved->shape(), .values = {}};
  const std::uint64_t elements = resolved->nbytes() * 8 / bits(tensor.dtype);
  if (elements == 0) return sample;
  sample.rows = resolved->shape().size() > 1 ? resolved->shape()[0] : 1;
  sample.columns = elements / sample.rows;
  const std::uint64_t sampled_rows = std::min(sample.rows, kMaxSamples);
  const std::uint64_t sampled_columns = std::min(sample.columns, kMaxSamples);
  // The products do not overflow: the elements are bytes of a file.
  const auto spaced = [](std::uint64_t i, std::uint64_t size, std::uint64_t count) {
    return (2 * i + 1) * size / (2 * count);
  };
  sample.values.reserve(static_cast<std::size_t>(sampled_rows * sampled_columns));
  ElementReader reader(file, tensor, *resolved);
  for (std::uint64_t i = 0; i < sampled_rows; ++i) {
    if (Interrupt::caught()) return Error{.code = Errc::cancelled, .path = {}, .message = "interrupted"};
    const std::uint64_t first = spaced(i, sample.rows, sampled_rows) * sample.columns;
    for (std::uint64_t j = 0; j < sampled_columns; ++j) {
      const Result<double> value = reader.read(first + spaced(j, sample.columns, sampled_columns));
      if (!value) return value.error();
      sample.values.push_back(*value);
    }
  }
  return sample;
}

}  // namespace safetensors::cli
