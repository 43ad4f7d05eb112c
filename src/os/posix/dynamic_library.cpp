// Loads libraries with dlopen(). RTLD_NOW: a library with missing dependencies fails at once, and not at a later call.
#include "os/dynamic_library.h"

#include <dlfcn.h>

namespace safetensors::os {

DynamicLibrary::DynamicLibrary(const char* name) noexcept : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* DynamicLibrary::find(const char* name) const noexcept {
  return ::dlsym(handle_, name);
}

const char* DynamicLibrary::last_error() noexcept {
  return ::dlerror();
}

}  // namespace safetensors::os
