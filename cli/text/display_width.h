// The width of text in columns of a terminal.
#pragma once

#include <cstddef>
#include <string_view>

namespace safetensors::cli {

// text: UTF-8 from printable(). Wide East Asian characters and emoji take two columns, combining characters take none.
// Each byte that is not UTF-8 takes one.
[[nodiscard]] std::size_t display_width(std::string_view text);

}  // namespace safetensors::cli
