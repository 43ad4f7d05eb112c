/// @file
/// Makes std::format() and std::print() print the objects of this library as the text of to_string(). Accepts the
/// format specifications of text, such as `{:>20}`. Needs C++20 and a standard library with `<format>`, and is
/// empty otherwise. safetensors.h does not include this header, because `<format>` takes long to compile.
///
/// Thread-safety: any number of threads may call the functions of this header at the same time.
#pragma once

#include <safetensors/print.h>

#if __has_include(<format>) && (__cplusplus > 201703L || (defined(_MSVC_LANG) && _MSVC_LANG > 201703L))
#include <format>

// Doxygen cannot read a specialization of a class in std.
/// @cond
/// Takes the format specifications of text, such as `{:>20}`.
template <class T>
requires safetensors::detail::kIsPrintable<T>
struct std::formatter<T, char> : std::formatter<std::string_view, char> {
  /// Formats the text that to_string() returns.
  template <class Context>
  auto format(const T& object, Context& context) const {
    return std::formatter<std::string_view, char>::format(std::string_view(to_string(object)), context);
  }
};
/// @endcond
#endif
