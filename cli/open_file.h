// Opening what a path names, the way every command does.
#pragma once

#include "console.h"

#include <safetensors/file.h>

#include <string>
#include <string_view>

namespace safetensors::cli {

// Opens for positioned reads, never maps. White space before the header's `{` is accepted, and said so.
[[nodiscard]] Result<File> open_file(const std::string& path, Console& console, const ParseOptions& parse = {});

// The tensor that is called `name`, or else the one that the commands show as `name` (escaped). nullptr: there is
// none.
[[nodiscard]] const TensorInfo* find_tensor(const Header& header, std::string_view name);

// "[2,3]"; a long shape is cut.
[[nodiscard]] std::string shape_text(ShapeView shape);

// Number of elements: what its bytes hold.
[[nodiscard]] std::uint64_t parameters(const TensorInfo& tensor);

}  // namespace safetensors::cli
