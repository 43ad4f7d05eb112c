// The functions that define the parts of the extension.
#pragma once

#include "support.h"

namespace safetensors::python {

void define_frameworks(nb::module_& module);
void define_tensor_spec(nb::module_& module);
void define_serialize(nb::module_& module);
void define_reading(nb::module_& module);
void define_stream(nb::module_& module);
void define_prefetch(nb::module_& module);
void define_checkpoint_layout(nb::module_& module);
void define_writer(nb::module_& module);

// Replaces the methods of a class by method descriptors of the interpreter with text signatures, which
// `inspect.signature` and `help` understand. They forward to the methods of nanobind. Call it once per class, after the
// last method is defined.
void publish_methods(nb::handle type);

}  // namespace safetensors::python
