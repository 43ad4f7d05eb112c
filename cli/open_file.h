// Opens files and finds tensors in the same way for every subcommand.
#pragma once

#include "console.h"

#include <safetensors/file.h>

#include <string>
#include <string_view>

namespace safetensors::cli {

// Opens a file for positioned reads, without a map. White space before the header's `{` is accepted with a notice.
[[nodiscard]] Result<File> open_file(const std::string& path, Console& console, const ParseOptions& parse = {});

// Returns the tensor `name`, or else the tensor whose escaped name, as the commands show it, is `name`. nullptr if the
// header has no such tensor.
[[nodiscard]] const TensorInfo* find_tensor(const Header& header, std::string_view name);

// "[2,3]". A long shape is cut.
[[nodiscard]] std::string shape_text(ShapeView shape);

// The number of elements, computed from the number of bytes.
[[nodiscard]] std::uint64_t parameters(const TensorInfo& tensor);

}  // namespace safetensors::cli
