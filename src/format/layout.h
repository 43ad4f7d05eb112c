// How many bytes a tensor has, and how tensors lie in the data: one set of rules for reading and for writing.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/shape.h>

#include <cstdint>

#include "base/checked.h"
#include "format/header.h"

namespace safetensors::format {

// Rules 7 and 8: ok with nbytes set, else size_overflow or misaligned_size.
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

// The sentence for what count_bytes refused.
[[nodiscard]] Error bytes_error(Errc code, std::string_view name, Dtype dtype, ShapeView shape);

// Whether tensor may come right after previous (null: it is the first): rule 6, and order by name among the empty.
[[nodiscard]] inline bool follows(const TensorInfo* previous, const TensorInfo& tensor) noexcept {
  if (tensor.end < tensor.begin) return false;
  if (previous == nullptr) return tensor.begin == 0;
  if (tensor.begin != previous->end) return false;
  return tensor.begin != previous->begin || tensor.end != tensor.begin || previous->name < tensor.name;
}

// Rules 7 to 9 for one tensor.
[[nodiscard]] inline bool size_fits(const TensorInfo& tensor) noexcept {
  std::uint64_t nbytes = 0;
  return count_bytes(tensor.dtype, tensor.shape, nbytes) == Errc::ok && nbytes == tensor.nbytes();
}

// Rules 6 to 9 for one tensor that should begin at `expected`; the error has everything but the offset.
[[nodiscard]] Status check_tensor(const TensorInfo& tensor, std::uint64_t expected, const TensorInfo* previous);

// Puts the tensors in order and checks them. in_order: they are known to be in order, each beginning where the one
// before it ends. sizes_fit: rules 7 to 9 are known to hold for each. Error also: cancelled. Throws
// std::bad_alloc.
[[nodiscard]] Status check_layout(detail::HeaderState& state, bool in_order, bool sizes_fit,
                                  base::Cancellation& cancellation);

}  // namespace safetensors::format
