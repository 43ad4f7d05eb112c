// Escapes text from files before it is shown, because it may be hostile. See also safetensors::printable().
#pragma once

#include <string>
#include <string_view>

namespace safetensors::cli {

// Returns the content of a JSON string. Invisible characters become \uXXXX: a JSON reader gets the same text, and a
// terminal is safe. A byte that is not UTF-8 becomes the text \x80.
[[nodiscard]] std::string json_escaped(std::string_view text);

// Escapes JSON or other text of several lines for a terminal. Invisible characters become \uXXXX, bytes that are not
// UTF-8 become \x80. Line feeds and tabs stay. The result of valid JSON is equal JSON.
[[nodiscard]] std::string visible(std::string_view text);

// Returns at most `limit` bytes of text, cut between characters and escaped. "..." follows if the text was cut.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit);

}  // namespace safetensors::cli
