// Names of files in manifests.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace safetensors::hash {

// Returns the length of the beginning that all paths have in common, up to and with a separator. paths: not empty.
[[nodiscard]] std::size_t common_folder(std::span<const std::string_view> paths);

// Checks that a new manifest may hold the name of a file. Error: invalid_argument.
[[nodiscard]] Status check_new_file_name(std::string_view name);

}  // namespace safetensors::hash
