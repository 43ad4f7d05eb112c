// JSON text out, in the format's own style: compact, non-ASCII as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::json {

// Appends text as a JSON string. Escaped are `"`, `\`, and control characters (\b \t \n \f \r, else \u00xx).
void append_string(std::string& out, std::string_view text);

// How many bytes append_string appends.
[[nodiscard]] std::uint64_t string_size(std::string_view text) noexcept;

void append_integer(std::string& out, std::uint64_t value);

}  // namespace safetensors::json
