// Methods that `inspect.signature` and `help` understand.
#pragma once

#include "support.h"

namespace safetensors::python {

// Replaces the methods of a class by method descriptors of the interpreter's own, with text signatures, which forward
// to nanobind's. Call it once for a class, after its last method.
void publish_methods(nb::handle type);

}  // namespace safetensors::python
