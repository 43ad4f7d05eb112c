// Functions that make errors for every layer, and guarded(), which turns a failed allocation into an error.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/exceptions.h"

namespace safetensors::base {

// A part of a text: a text, or an integer.
class TextPart {
 public:
  TextPart(const char* text) noexcept : TextPart(std::string_view(text)) {}
  TextPart(const std::string& text) noexcept : TextPart(std::string_view(text)) {}
  TextPart(std::string_view text) noexcept : kind_(Kind::text), text_(text.data()), number_(text.size()) {}
  template <class Number, class = std::enable_if_t<std::is_integral_v<Number>>>
  TextPart(Number number) noexcept
      : kind_(std::is_signed_v<Number> ? Kind::signed_number : Kind::unsigned_number),
        number_(static_cast<std::uint64_t>(number)) {}
  TextPart(char) = delete;  // would be a number

 private:
  friend std::string concat(std::initializer_list<TextPart> parts);
  enum class Kind : std::uint8_t { text, signed_number, unsigned_number };
  Kind kind_;
  const char* text_ = nullptr;
  std::uint64_t number_;  // or the length of the text
};

// Parts of a text, one after the other: {"tensor ", name, " has ", size, " bytes"}. Chains of operator+ in its place
// make the vendored reader 18 KB larger.
using Text = std::initializer_list<TextPart>;
[[nodiscard]] std::string concat(Text parts);

// Returns an error without an offset and without an errno. path: the path of the file, or empty.
[[nodiscard]] Error make_error(Errc code, std::string message, std::string_view path = {});
[[nodiscard]] Error make_error(Errc code, Text message, std::string_view path = {});

// Returns the error with a path, if it has none.
[[nodiscard]] Error with_path(Error error, std::string_view path);

// Needs no allocation: the message fits into the small buffer of std::string.
[[nodiscard]] Error out_of_memory() noexcept;

// Returns out_of_memory(), if the exception that is being handled is std::bad_alloc or std::length_error. Throws any
// other exception again.
[[nodiscard]] Error memory_error();

// Calls function, which returns a Status, a Result or an Error. A failed allocation becomes Errc::out_of_memory. So
// does a size that no container can have (std::length_error).
template <class Function>
[[nodiscard]] auto guarded(Function&& function) noexcept -> decltype(function()) {
  return caught_all(std::forward<Function>(function), []() -> decltype(function()) { return memory_error(); });
}

// Returns the error for the exception that is being handled, which a function of the caller threw. See called().
[[nodiscard]] Error caller_error(Errc code, std::string_view what, std::uint64_t offset) noexcept;

// Calls a function of the caller, which returns a Status or a Result and may throw anything. std::bad_alloc becomes
// Errc::out_of_memory. Another exception becomes an error with this code and offset. what: names the function in the
// message.
template <class Function>
[[nodiscard]] auto called(Function&& function, Errc code, std::string_view what,
                          std::uint64_t offset = Error::kNoOffset) noexcept -> decltype(function()) {
  return caught_all(std::forward<Function>(function),
                    [&]() -> decltype(function()) { return caller_error(code, what, offset); });
}

inline constexpr const char* kOpeningCancelled = "cancelled while opening";

// Returns the error for a caller who cancels while a file is opened.
[[nodiscard]] Error opening_cancelled() noexcept;

// Returns the error for a progress function that cancels. completed and total are in bytes.
[[nodiscard]] Error cancelled(std::uint64_t completed, std::uint64_t total, std::string_view path = {}) noexcept;

}  // namespace safetensors::base
