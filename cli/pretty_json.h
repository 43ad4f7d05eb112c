// A header's JSON, laid out for people.
#pragma once

#include <string>
#include <string_view>

namespace safetensors::cli {

// One tensor a line, one metadata pair a line; white space outside strings is the only change. Works on the text
// alone: what is not JSON comes out as well as it can.
[[nodiscard]] std::string pretty_json(std::string_view text);

}  // namespace safetensors::cli
