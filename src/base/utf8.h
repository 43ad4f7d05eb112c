// Strict UTF-8: no overlong forms, no surrogates, no code points above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace safetensors::base {

// Returns the index of the first byte that does not begin a well-formed sequence, or npos if all of the text is UTF-8.
[[nodiscard]] std::size_t first_invalid_utf8(std::string_view text) noexcept;

// Returns the length, 1 to 4 bytes, of the well-formed sequence at the start of text. Returns 0 if text starts with no
// such sequence. text must not be empty.
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text) noexcept;

// Returns the Unicode scalar value of one well-formed sequence.
[[nodiscard]] char32_t decode_utf8(std::string_view sequence) noexcept;

// Writes a Unicode scalar value as UTF-8 and returns the number of bytes written, 1 to 4.
std::size_t encode_utf8(char32_t scalar, char* out) noexcept;

}  // namespace safetensors::base
