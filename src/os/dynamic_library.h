// Libraries that are opened at run time.
#pragma once

namespace safetensors::os {

// Loads a library, with its dependencies. Its names are visible to find_function() only. Returns nullptr on failure,
// and sets the reason to a text of the system, which is valid until the next library is loaded.
[[nodiscard]] void* load_library(const char* name, const char*& reason) noexcept;
void unload_library(void* library) noexcept;
// Returns a function of the library, or nullptr if it has none of this name.
[[nodiscard]] void* find_function(void* library, const char* name) noexcept;

}  // namespace safetensors::os
