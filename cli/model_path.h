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

// Writes a notice that names the model read from a folder, if other models lie beside it: indexes, and whole files.
// Variants of the model are not other models. Beside an index, a whole file counts only if programs know its name, and
// only if `indexed` is true. Ignores errors.
void notice_beside(const std::string& argument, Console& console, bool indexed = true);

}  // namespace safetensors::cli
