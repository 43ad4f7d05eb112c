// Columns of a terminal that text takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace safetensors::cli {

// text: UTF-8, as printable() returns it. Wide East Asian characters and emoji take two columns, combining characters
// take none, bytes that are not UTF-8 take one each.
[[nodiscard]] std::size_t display_width(std::string_view text);

// text in at most `columns` columns, which is 1 or more: an ellipsis replaces the middle of a wider text. A combining
// character stays with the character that it belongs to.
[[nodiscard]] std::string fit_width(std::string_view text, std::size_t columns);

}  // namespace safetensors::cli
