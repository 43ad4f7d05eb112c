// Memory of the library as a Python object with the buffer protocol. NumPy arrays are made over it.
#pragma once

#include "support.h"

namespace safetensors::python {

void define_memory(nb::module_& module);

// Returns an object that shares the memory of the array. It is read-only unless the array is writable.
[[nodiscard]] nb::object make_memory(Array array);

}  // namespace safetensors::python
