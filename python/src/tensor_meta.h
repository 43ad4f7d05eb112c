// What the header says of one tensor, as an object.
#pragma once

#include "opened.h"
#include "support.h"

namespace safetensors::python {

void define_tensor_meta(nb::module_& module);

// Raises SafetensorError for a name that is not there.
[[nodiscard]] nb::object make_tensor_meta(const Opened& opened, std::string_view name);

}  // namespace safetensors::python
