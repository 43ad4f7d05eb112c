// What a caller says of a tensor that is to be saved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "support.h"

namespace safetensors::python {

// The tensor's bytes are the caller's, who keeps them alive and unchanged while they are used.
struct TensorSpec {
  Dtype dtype = Dtype::U8;
  std::vector<std::uint64_t> shape;  // in elements, as the header has it
  std::uintptr_t data = 0;
  std::size_t size = 0;  // in bytes
};

// dtype: as frameworks call it, such as "float32". Raises SafetensorError for any other, OverflowError.
[[nodiscard]] TensorSpec make_spec(std::string_view dtype, nb::handle shape, std::uintptr_t data, std::size_t size);

// Casts to a TensorSpec, valid as long as the object. Raises TypeError for an object of another type and for a
// TensorSpec that was never initialized.
[[nodiscard]] const TensorSpec& to_spec(nb::handle object, const char* argument);
// Raises SafetensorError unless the buffer holds plain bytes, or elements of the dtype. name: the tensor's.
void check_elements(std::string_view name, Dtype dtype, const Buffer& buffer);

void define_tensor_spec(nb::module_& module);

}  // namespace safetensors::python
