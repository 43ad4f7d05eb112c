// Libraries that are opened at run time.
#pragma once

namespace safetensors::os {

// Loads a library, with its dependencies. Its names are visible to find_function() only. Returns nullptr on failure.
[[nodiscard]] void* load_library(const char* name) noexcept;
// Returns the text of the failure of load_library() before, on this thread, in the words of the system. nullptr: it has
// none. It is valid until the next call that loads a library.
[[nodiscard]] const char* load_library_error() noexcept;
void unload_library(void* library) noexcept;
// Returns a function of the library, or nullptr if it has none of this name.
[[nodiscard]] void* find_function(void* library, const char* name) noexcept;

}  // namespace safetensors::os
