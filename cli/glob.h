// Patterns for names, as a shell has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// * is any text, ? one character, [a-z] one of a set, [!a-z] one that is not in it, \ takes the next literally; all of
// name must match. A dot or slash is a character like any other. A [ that is never closed stands for itself.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view name) noexcept;

// Whether any pattern matches, or there is none.
[[nodiscard]] bool glob_match_any(const std::vector<std::string>& patterns, std::string_view name) noexcept;

}  // namespace safetensors::cli
