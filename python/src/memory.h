// Memory of the library's as an object with the buffer protocol: what arrays stand on.
#pragma once

#include "support.h"

namespace safetensors::python {

void define_memory(nb::module_& module);

// Shares the array's memory. Read-only unless the array is writable.
[[nodiscard]] nb::object make_memory(Array array);

}  // namespace safetensors::python
