#include "module.h"

#include <safetensors/c.h>

#include "memory.h"
#include "prefetch.h"
#include "signatures.h"
#include "tensor_meta.h"
#include "tensor_spec.h"

NB_MODULE(_native, module) {
  using namespace safetensors::python;
  module.doc() = "The compiled part of safetensors. Use the package safetensors.";
  // Tests ask for it. Others should not be told of what a thread still holds when the program ends.
  nb::set_leak_warnings(false);
  module.def("_set_leak_warnings", &nb::set_leak_warnings, nb::arg("enabled"),
             "Whether objects that are alive when the interpreter ends are told of on standard error.");
  module.attr("_version") = safetensors_version_string();
  define_errors(module);
  define_tensor_spec(module);
  define_memory(module);
  define_serialize(module);
  define_safe_open(module);
  define_tensor_meta(module);
  define_prefetch(module);
  define_load(module);
  define_checkpoint(module);
  define_writer(module);
  for (const char* const name :
       {"safe_open", "PySafeSlice", "PrefetchLoader", "TensorStream", "TensorMeta", "TensorSpec"})
    publish_methods(module.attr(name));
}
