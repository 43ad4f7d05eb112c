// The text of a header, for `info --header`.
#pragma once

#include "console.h"

#include <string>

namespace safetensors::cli {

// Prints the JSON of the header of one file: unchanged to a pipe, one tensor per line on a terminal. A header that
// breaks rules 4 to 10 is printed, too, with the error. as_json: inside of a document of schema safetensors.header/1.
Exit show_header(const std::string& path, bool as_json, Console& console);

}  // namespace safetensors::cli
