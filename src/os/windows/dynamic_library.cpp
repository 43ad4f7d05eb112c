// Loads libraries with LoadLibrary(), and only from the folders of the system: a library in the working directory must
// not run.
#include "os/dynamic_library.h"

#include "os/windows/native.h"

namespace safetensors::os {
namespace {

thread_local bool failed = false;

}  // namespace

DynamicLibrary::DynamicLibrary(const char* name) noexcept
    : handle_(::LoadLibraryExA(name, nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32)) {
  failed = handle_ == nullptr;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) (void)::FreeLibrary(static_cast<HMODULE>(handle_));
}

void* DynamicLibrary::find(const char* name) const noexcept {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(handle_), name));
}

const char* DynamicLibrary::last_error() noexcept {
  const bool report = failed;
  failed = false;
  return report ? "Windows cannot load the library" : nullptr;
}

}  // namespace safetensors::os
