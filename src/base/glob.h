// Shell patterns for names.
#pragma once

#include <string_view>

namespace safetensors::base {

// Returns whether text contains `*`, `?` or `[`.
[[nodiscard]] bool is_glob(std::string_view text) noexcept;

// Returns whether pattern matches the whole name. `*` matches any text, `?` one character, `[a-z]` one character of a
// set, and `[!a-z]` one character outside of a set. `\` takes the next character literally. Dots and slashes are
// ordinary characters. A `[` that is never closed stands for itself.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view name) noexcept;

}  // namespace safetensors::base
