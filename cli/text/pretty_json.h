// Lays out the JSON of a header for people.
#pragma once

#include <string>
#include <string_view>

namespace safetensors::cli {

// Puts each tensor and each metadata pair on its own line. Changes only white space outside of strings. Never fails:
// text that is not JSON gives some layout.
[[nodiscard]] std::string pretty_json(std::string_view text);

}  // namespace safetensors::cli
