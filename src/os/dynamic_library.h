// Libraries that are opened at run time.
#pragma once

namespace safetensors::os {

// Loads a library, with its dependencies. Its names are visible to find_function() only. Returns nullptr on failure.
[[nodiscard]] void* load_library(const char* name) noexcept;
// Call it after load_library() has failed, on the same thread. Returns the reason in the words of the system, or
// nullptr if the system gives none. The text is valid until the next library is loaded.
[[nodiscard]] const char* load_library_error() noexcept;
void unload_library(void* library) noexcept;
// Returns a function of the library, or nullptr if it has none of this name.
[[nodiscard]] void* find_function(void* library, const char* name) noexcept;

}  // namespace safetensors::os
