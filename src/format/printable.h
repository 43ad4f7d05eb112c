// Names and other texts of strangers, in messages that somebody reads. See also safetensors::printable().
#pragma once

#include <safetensors/error.h>

#include <string>
#include <string_view>

namespace safetensors::format {

// Whether text holds a character that printable() escapes: a control, bidirectional, zero-width or other invisible
// character. Backslashes and bytes that are not UTF-8 do not count.
[[nodiscard]] bool has_invisible(std::string_view text) noexcept;

// "tensor `NAME`", with a printable name.
[[nodiscard]] std::string tensor_named(std::string_view name);

}  // namespace safetensors::format
