// The class TensorSpec: dtype, shape and memory of a tensor to save.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "support.h"

namespace safetensors::python {

// The caller owns the bytes, and keeps them alive and unchanged while the tensor is saved.
struct TensorSpec {
  Dtype dtype = Dtype::U8;
  std::vector<std::uint64_t> shape;  // in elements, as in the header
  std::uintptr_t data = 0;
  std::size_t size = 0;  // in bytes
};

// dtype: a name in frameworks, such as "float32". Raises SafetensorError for an unknown name, OverflowError for a
// dimension that is negative or too large.
[[nodiscard]] TensorSpec make_spec(std::string_view dtype, nb::handle shape, std::uintptr_t data, std::size_t size);

// Returns the TensorSpec of an object, valid as long as the object. Raises TypeError for an object of another type and
// for a TensorSpec that was never initialized.
[[nodiscard]] const TensorSpec& to_spec(nb::handle object, const char* argument);
// Raises SafetensorError unless the buffer holds plain bytes or elements of the dtype. name: of the tensor, for the
// error.
void check_elements(std::string_view name, Dtype dtype, const Buffer& buffer);

void define_tensor_spec(nb::module_& module);

}  // namespace safetensors::python
