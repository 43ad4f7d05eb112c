// Gives methods signatures that `inspect.signature` and `help` understand.
#pragma once

#include "support.h"

namespace safetensors::python {

// Replaces the methods of a class by method descriptors of the interpreter with text signatures. They forward to the
// methods of nanobind. Call it once per class, after the last method is defined.
void publish_methods(nb::handle type);

}  // namespace safetensors::python
