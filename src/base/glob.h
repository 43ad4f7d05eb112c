// Patterns for names, as a shell has them.
#pragma once

#include <string_view>

namespace safetensors::base {

// Whether text has a *, ? or [ at all.
[[nodiscard]] bool is_glob(std::string_view text) noexcept;

// * is any text, ? one character, [a-z] one of a set, [!a-z] one that is not in it, \ takes the next literally; all of
// name must match. A dot or slash is a character like any other. A [ that is never closed stands for itself.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view name) noexcept;

}  // namespace safetensors::base
