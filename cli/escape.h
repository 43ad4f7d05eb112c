// Text from strangers, made harmless before it is shown. See also safetensors::printable().
#pragma once

#include <string>
#include <string_view>

namespace safetensors::cli {

// What stands between the quotes of a JSON string: characters that cannot be seen become \uXXXX, so the text is the
// same to a JSON reader and harmless to a terminal. Bytes that are not UTF-8 arrive as text, \x80.
[[nodiscard]] std::string json_escaped(std::string_view text);

// JSON text, or any other text of several lines, for a terminal: what cannot be seen becomes \uXXXX, bytes that are
// not UTF-8 \x80; line feeds and tabs stay. Valid JSON stays the same JSON.
[[nodiscard]] std::string visible(std::string_view text);

// Whether all of it is well-formed UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

// At most `limit` bytes of printable text, cut between characters, with "..." if anything is missing.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit);

}  // namespace safetensors::cli
