// Loads libraries with LoadLibrary(), and only from the folders of the system: a library in the working directory must
// not run.
#include "os/dynamic_library.h"

#include "os/windows/native.h"

namespace safetensors::os {

void* load_library(const char* name, const char*& reason) noexcept {
  reason = "Windows cannot load the library";
  return ::LoadLibraryExA(name, nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32);
}

void unload_library(void* library) noexcept {
  (void)::FreeLibrary(static_cast<HMODULE>(library));
}

void* find_function(void* library, const char* name) noexcept {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(library), name));
}

}  // namespace safetensors::os
