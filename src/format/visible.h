// Characters that a name should not have where somebody is to read it.
#pragma once

#include <string_view>

namespace safetensors::format {

// Whether text holds what printable() escapes, backslashes and bytes that are not UTF-8 apart: a control,
// bidirectional, zero-width or other invisible character.
[[nodiscard]] bool has_invisible(std::string_view text) noexcept;

}  // namespace safetensors::format
