// The object whose calls tests can make fail.
#include "os/system.h"

#include <new>

namespace safetensors::os {

FileSystem System::file_system(int descriptor) noexcept {
  return file_system_of(descriptor);
}

System& real_system() noexcept {
  // Never destroyed, because static objects may still write files when the program ends.
  alignas(System) static std::byte storage[sizeof(System)];
  static System* const system = ::new (storage) System;
  return *system;
}

}  // namespace safetensors::os
