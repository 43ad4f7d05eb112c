/// @file
/// Formats the objects of this library with std::format() and std::print(), as to_string() shows them. Needs a standard
/// library with `<format>`. safetensors.h does not include this header, because `<format>` takes long to compile.
#pragma once

#include <safetensors/print.h>

#include <format>

/// Takes the format specifications of text, such as `{:>20}`.
template <safetensors::detail::Printable T>
struct std::formatter<T, char> : std::formatter<std::string_view, char> {
  /// Formats the text that to_string() returns.
  template <class Context>
  auto format(const T& object, Context& context) const {
    return std::formatter<std::string_view, char>::format(std::string_view(to_string(object)), context);
  }
};
