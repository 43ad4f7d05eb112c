// The class TensorMeta: the entry of one tensor in the header.
#pragma once

#include "opened.h"
#include "support.h"

namespace safetensors::python {

void define_tensor_meta(nb::module_& module);

[[nodiscard]] nb::object make_tensor_meta(Tensor tensor);

}  // namespace safetensors::python
