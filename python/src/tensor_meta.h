// The class TensorMeta: the entry of one tensor in the header.
#pragma once

#include "opened.h"
#include "support.h"

namespace safetensors::python {

void define_tensor_meta(nb::module_& module);

// Raises SafetensorError for an unknown name.
[[nodiscard]] nb::object make_tensor_meta(const Opened& opened, std::string_view name);

}  // namespace safetensors::python
