// Folders that stand for a model in a way that the library does not know: the cache of huggingface_hub. And the errors
// of folders that stand for no model.
#pragma once

#include <safetensors/error.h>

#include <string>

namespace safetensors::cli {

// Returns the path that the library opens for an argument:
// - for a folder `models--ORG--NAME` of the cache: the snapshot that refs/main names, or the only one;
// - any other argument as it is.
[[nodiscard]] std::string model_path(const std::string& argument);

// If the error of the library is about the folder `argument`, adds to its message what the user can do. Returns other
// errors unchanged.
[[nodiscard]] Error explain_folder(Error error, const std::string& argument);

}  // namespace safetensors::cli
