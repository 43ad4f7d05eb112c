// The number of bytes of a tensor, and the layout of tensors in the data: one set of rules for reading and for writing.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/shape.h>

#include <cstdint>

#include "base/checked.h"
#include "format/header/header.h"

namespace safetensors::format {

// Checks rules 7 and 8. Returns ok and sets nbytes, or returns size_overflow or misaligned_size. The product counts
// bits, so a tensor of more than 2^64-1 bits is refused even if its bytes would fit.
[[nodiscard]] inline Errc count_bytes(Dtype dtype, ShapeView shape, std::uint64_t& nbytes) noexcept {
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : shape) {
    if (!base::multiply(elements, dim, elements)) return Errc::size_overflow;
  }
  std::uint64_t total = 0;
  if (!base::multiply(elements, bits(dtype), total)) return Errc::size_overflow;
  if (total % 8 != 0) return Errc::misaligned_size;
  nbytes = total / 8;
  return Errc::ok;
}

// Returns the error, with its message, for a code from count_bytes().
[[nodiscard]] Error bytes_error(Errc code, std::string_view name, Dtype dtype, ShapeView shape);

// Rule 6 for one tensor: its bytes [begin, end) start where the bytes before them end.
[[nodiscard]] inline bool is_consecutive(std::uint64_t begin, std::uint64_t end, std::uint64_t expected) noexcept {
  return begin == expected && end >= begin;
}

// Returns whether tensor may follow previous directly (null: tensor is the first). Checks rule 6, and the order by name
// among tensors without bytes.
[[nodiscard]] inline bool follows(const TensorInfo* previous, const TensorInfo& tensor) noexcept {
  if (!is_consecutive(tensor.begin, tensor.end, previous == nullptr ? 0 : previous->end)) return false;
  return previous == nullptr || tensor.begin != previous->begin || tensor.end != tensor.begin ||
         previous->name < tensor.name;
}

// Checks rules 7 to 9 for one tensor.
[[nodiscard]] inline bool size_fits(const TensorInfo& tensor) noexcept {
  std::uint64_t nbytes = 0;
  return count_bytes(tensor.dtype, tensor.shape, nbytes) == Errc::ok && nbytes == tensor.nbytes();
}

// Orders the tensors by offset, checks rules 6 to 10, and counts the faults that `accept` allows in state.tolerated.
// in_order: each tensor is known to begin where the one before it ends. sizes_fit: rules 7 to 9 are known to hold for
// each tensor. Error also: cancelled. Throws std::bad_alloc.
[[nodiscard]] Status check_layout(detail::HeaderState& state, bool in_order, bool sizes_fit, const Accept& accept,
                                  base::Cancellation& cancellation);

}  // namespace safetensors::format
