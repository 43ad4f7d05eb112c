#include "module.h"

#include "memory.h"
#include "tensor_spec.h"

NB_MODULE(_native, module) {
  using namespace safetensors::python;
  module.doc() = "The compiled part of safetensors. Use the package safetensors.";
  module.attr("_version") = SAFETENSORS_RELEASE;
  define_errors(module);
  define_tensor_spec(module);
  define_memory(module);
  define_serialize(module);
  define_safe_open(module);
  define_load(module);
}
