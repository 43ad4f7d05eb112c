// The folder of a model, and the errors of folders that stand for no model.
#pragma once

#include "console.h"

#include <safetensors/error.h>

#include <string>

namespace safetensors::cli {

// Returns file::snapshot_of() for a folder. Returns any other argument, and a folder with an error, as it is.
[[nodiscard]] std::string model_path(const std::string& argument);

// If the error of the library is about the folder `argument`, adds to its message what the user can do. Returns other
// errors unchanged.
[[nodiscard]] Error explain_folder(Error error, const std::string& argument);

// Says which model of a folder is read, if whole files or indexes of other models lie beside it. Its variants are no
// other models. indexed: also files beside the index that is read. Ignores errors.
void notice_beside(const std::string& argument, Console& console, bool indexed = true);

}  // namespace safetensors::cli
