// Loads libraries with dlopen(). RTLD_NOW: a library with missing dependencies fails at once, and not at a later call.
#include "os/dynamic_library.h"

#include <dlfcn.h>

namespace safetensors::os {

void* load_library(const char* name, const char*& reason) noexcept {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const char* const error = library == nullptr ? ::dlerror() : nullptr;
  if (error != nullptr) reason = error;
  return library;
}

void unload_library(void* library) noexcept {
  (void)::dlclose(library);
}

void* find_function(void* library, const char* name) noexcept {
  return ::dlsym(library, name);
}

}  // namespace safetensors::os
