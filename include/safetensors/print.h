/// @file
/// Converts objects of this library to text: to_string() and `std::cout << object`.
///
/// Thread-safety: any number of threads may call the functions of this header at the same time.
#pragma once

#include <safetensors/array.h>
#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/shape.h>

#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

namespace safetensors {
inline namespace v0 {

/// @{
/// Returns the name, the dtype and the shape as one line, such as "embed.weight F32 [30522, 384]". printable() escapes
/// the name. An Array has no name, so its line holds only the dtype and the shape. May throw `std::bad_alloc`.
[[nodiscard]] SAFETENSORS_API std::string to_string(const TensorInfo& tensor);
[[nodiscard]] SAFETENSORS_API std::string to_string(const Array& array);
[[nodiscard]] inline std::string to_string(const Tensor& tensor) {
  return to_string(tensor.info());
}
/// @}
/// Returns Error::to_string(). May throw `std::bad_alloc`.
[[nodiscard]] inline std::string to_string(const Error& error) {
  return error.to_string();
}

namespace detail {
// The types that streams print.
template <class T>
inline constexpr bool kIsPrintable =
    std::is_same_v<T, Dtype> || std::is_same_v<T, Errc> || std::is_same_v<T, Shape> || std::is_same_v<T, TensorInfo> ||
    std::is_same_v<T, Tensor> || std::is_same_v<T, Array> || std::is_same_v<T, Error>;
}  // namespace detail

/// Writes the text that to_string() returns, and returns the stream. May throw `std::bad_alloc`.
template <class T, class Traits, std::enable_if_t<detail::kIsPrintable<T>, int> = 0>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const T& object) {
  return out << std::string_view(to_string(object));
}

}  // namespace v0
}  // namespace safetensors
