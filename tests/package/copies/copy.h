// Facts that tell one copy of the library from another.
#pragma once

#include <safetensors/c.h>
#include <safetensors/safetensors.h>

struct Copy {
  const char* version;
  const char* (*c_function)();                                // its address
  std::string_view (*function)(safetensors::Dtype) noexcept;  // the address of a C++ function
  bool catches;                                               // whether an exception of the library is caught
};

// Returns the copy that the caller is linked with.
static Copy this_copy() {
  Copy copy{safetensors_version_string(), &safetensors_version_string, &safetensors::to_string, false};
  try {
    (void)safetensors::File::open("/nothing/here").value();
  } catch (const safetensors::Exception&) {
    copy.catches = true;
  }
  return copy;
}
