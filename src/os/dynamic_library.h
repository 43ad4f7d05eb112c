// A library that is opened at run time.
#pragma once

namespace safetensors::os {

// Unloads the library in the destructor, unless keep() was called.
class DynamicLibrary {
 public:
  // Loads a library, with its dependencies. Its names are visible to this object only.
  explicit DynamicLibrary(const char* name) noexcept;
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;
  ~DynamicLibrary();

  [[nodiscard]] bool loaded() const noexcept { return handle_ != nullptr; }
  // Returns a function of the loaded library, or nullptr if it has none of this name.
  template <class Function>
  [[nodiscard]] Function* function(const char* name) const noexcept {
    return reinterpret_cast<Function*>(find(name));
  }
  // The library stays loaded until the process ends.
  void keep() noexcept { handle_ = nullptr; }

  // Returns the text of the last failure on this thread, in the words of the system, or nullptr. Only the first call
  // returns it. It is valid until the next call that loads a library.
  [[nodiscard]] static const char* last_error() noexcept;

 private:
  [[nodiscard]] void* find(const char* name) const noexcept;

  void* handle_;
};

}  // namespace safetensors::os
