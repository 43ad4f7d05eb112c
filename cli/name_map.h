// Lists of old and new names of tensors, for options --map.
#pragma once

#include "input.h"

#include <safetensors/error.h>

#include <functional>
#include <map>
#include <string>

namespace safetensors::cli {

// New names by old names.
using NameMap = std::map<std::string, std::string, std::less<>>;

// Reads lines of OLD, a tab and NEW. Errors, with the path: open_failed, read_failed, invalid_argument.
[[nodiscard]] Status read_name_map(const std::string& path, NameMap& names);

// Every OLD must be a tensor of the input, whose argument is `input_path`. path: of the list. Error: not_found, with
// the path of the list.
[[nodiscard]] Status check_name_map(const Input& input, const std::string& input_path, const std::string& path,
                                    const NameMap& names);

}  // namespace safetensors::cli
