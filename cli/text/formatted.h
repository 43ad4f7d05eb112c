// Formats text as fmt::format() does. This header needs only <fmt/core.h>, which compiles faster than <fmt/format.h>.
#pragma once

#include <fmt/core.h>

#include <string>

namespace safetensors::cli {

// Returns the text with each {} replaced. text is checked when the caller is compiled. Throws std::bad_alloc.
[[nodiscard]] std::string vformatted(fmt::string_view text, fmt::format_args values);
template <class... Values>
[[nodiscard]] std::string formatted(fmt::format_string<Values...> text, Values&&... values) {
  return vformatted(text, fmt::make_format_args(values...));
}

}  // namespace safetensors::cli
