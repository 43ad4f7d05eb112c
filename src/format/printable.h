// Names and other untrusted texts in messages. See also safetensors::printable().
#pragma once

#include <safetensors/error.h>

#include <string>
#include <string_view>

namespace safetensors::format {

// Returns whether text holds an invisible character: a control, bidirectional, zero-width or other character that
// printable() escapes. Backslashes and bytes that are not UTF-8 do not count.
[[nodiscard]] bool has_invisible(std::string_view text) noexcept;

// Returns "tensor `NAME`", with a printable name.
[[nodiscard]] std::string tensor_named(std::string_view name);

}  // namespace safetensors::format
