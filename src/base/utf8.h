// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace safetensors::base {

// The index of the first byte that begins no well-formed sequence, or npos.
[[nodiscard]] std::size_t first_invalid_utf8(std::string_view text) noexcept;

// The length of the well-formed sequence that text begins with (1 to 4), or 0. text must not be empty.
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text) noexcept;

// Writes a scalar value as UTF-8, 1 to 4 bytes, and returns their number.
std::size_t encode_utf8(char32_t scalar, char* out) noexcept;

}  // namespace safetensors::base
