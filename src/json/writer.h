// Writes JSON text in the format's own style: compact, with non-ASCII characters as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::json {

// Appends text as a JSON string. Escapes `"`, `\` and control characters (\b \t \n \f \r, otherwise \u00xx).
void append_string(std::string& out, std::string_view text);

// Appends text in the form of Python's json.dumps(): as append_string() does, and escapes DEL and all characters that
// are not ASCII as \uxxxx, in two UTF-16 units if one is not enough. Copies bytes that are not UTF-8.
void append_ascii_string(std::string& out, std::string_view text);

// Returns the number of bytes that append_string() appends.
[[nodiscard]] std::uint64_t string_size(std::string_view text) noexcept;

}  // namespace safetensors::json
