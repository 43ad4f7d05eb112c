// The functions that define the parts of the extension, each in the file of its name.
#pragma once

#include "support.h"

namespace safetensors::python {

void define_serialize(nb::module_& module);
void define_safe_open(nb::module_& module);
void define_load(nb::module_& module);
void define_checkpoint(nb::module_& module);
void define_writer(nb::module_& module);
void define_texts(nb::module_& module);

}  // namespace safetensors::python
