// Defines the extension module safetensors._native from its parts.
#include "module.h"

#include <safetensors/c.h>

#include "checkpoint_layout.h"
#include "dtype_names.h"
#include "memory.h"
#include "prefetch.h"
#include "signatures.h"
#include "tensor_meta.h"
#include "tensor_spec.h"

NB_MODULE(_native, module) {
  using namespace safetensors::python;
  set_package(module);
  module.doc() = "The extension of safetensors, in C++. Use the package safetensors.";
  // Tests turn warnings on. For users they are noise: a thread may still hold an object when the program ends.
  nb::set_leak_warnings(false);
  module.def("_set_leak_warnings", &nb::set_leak_warnings, nb::arg("enabled"),
             "Whether to print a warning for objects that are alive when the interpreter ends.");
  module.attr("_version") = safetensors_version_string();
  define_errors(module);
  define_dtype_names(module);
  define_tensor_spec(module);
  define_memory(module);
  define_serialize(module);
  define_safe_open(module);
  define_tensor_meta(module);
  define_prefetch(module);
  define_load(module);
  define_checkpoint(module);
  define_checkpoint_layout(module);
  define_writer(module);
  define_texts(module);
  for (const char* const name :
       {"safe_open", "PySafeSlice", "PrefetchLoader", "TensorStream", "TensorMeta", "TensorSpec"})
    publish_methods(module.attr(name));
}
