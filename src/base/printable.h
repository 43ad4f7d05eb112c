// Names and other untrusted texts in messages. See also safetensors::printable().
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace safetensors::base {

// Returns whether text holds an invisible character: a control, bidirectional, zero-width or other character that
// printable() escapes. Backslashes and bytes that are not UTF-8 do not count.
[[nodiscard]] bool has_invisible(std::string_view text) noexcept;

// Returns the printable text between backquotes, cut after `limit` bytes: a text of a stranger may be long, and an
// escaped byte has six characters.
[[nodiscard]] std::string shown_name(std::string_view text, std::size_t limit = 200);

// Returns "tensor `NAME`", with a printable name.
[[nodiscard]] std::string tensor_named(std::string_view name);

// Checks that text is UTF-8. Error invalid_utf8: "WHAT `NAME` is not valid UTF-8 at byte 3". May throw std::bad_alloc.
[[nodiscard]] Status check_utf8(const char* what, std::string_view name, std::string_view text);

}  // namespace safetensors::base
