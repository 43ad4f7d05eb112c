// Functions that make errors for every layer, and guarded(), which turns a failed allocation into an error.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/exceptions.h"

namespace safetensors::base {

// Returns an error without an offset and without an errno. path: the path of the file, or empty.
[[nodiscard]] inline Error make_error(Errc code, std::string message, std::string_view path = {}) {
  return Error{.code = code, .path = std::string(path), .message = std::move(message)};
}

// Returns the error with a path, if it has none.
[[nodiscard]] inline Error with_path(Error error, std::string_view path) {
  if (error.path.empty()) error.path = path;
  return error;
}

// Needs no allocation: the message fits into the small buffer of std::string.
[[nodiscard]] inline Error out_of_memory() noexcept {
  return Error{.code = Errc::out_of_memory, .message = "out of memory"};
}

// Calls function, which returns a Status, a Result or an Error. A failed allocation becomes Errc::out_of_memory. So
// does a size that no container can have (std::length_error).
template <class Function>
[[nodiscard]] auto guarded(Function&& function) noexcept -> decltype(function()) {
  using Value = decltype(function());
  const auto failed = [](const std::exception&) -> Value { return out_of_memory(); };
  return caught<std::bad_alloc>(
      [&]() -> Value { return caught<std::length_error>(std::forward<Function>(function), failed); }, failed);
}

// Calls a function of the caller, which returns a Status or a Result and may throw anything. std::bad_alloc becomes
// Errc::out_of_memory. Another exception becomes an error with this code and offset. what: names the function in the
// message.
template <class Function>
[[nodiscard]] auto called(Function&& function, Errc code, std::string_view what,
                          std::uint64_t offset = Error::kNoOffset) noexcept -> decltype(function()) {
  using Value = decltype(function());
  const auto threw = [&](const char* text) -> Value {
    return Error{
        .code = code, .offset = offset, .message = std::string(what) + " threw an exception: " + printable(text)};
  };
  const auto call = [&]() -> Value {
    return caught<std::bad_alloc>(std::forward<Function>(function),
                                  [](const std::bad_alloc&) -> Value { return out_of_memory(); });
  };
  return guarded([&]() -> Value { return caught_text(call, threw); });
}

inline constexpr const char* kOpeningCancelled = "cancelled while opening";

// Returns the error for a caller who cancels while a file is opened.
[[nodiscard]] inline Error opening_cancelled() noexcept {
  return guarded([] { return make_error(Errc::cancelled, kOpeningCancelled); });
}

// Returns the error for a progress function that cancels. completed and total are in bytes.
[[nodiscard]] inline Error cancelled(std::uint64_t completed, std::uint64_t total,
                                     std::string_view path = {}) noexcept {
  return guarded([&] {
    return make_error(Errc::cancelled,
                      "cancelled after " + std::to_string(completed) + " of " + std::to_string(total) + " bytes", path);
  });
}

}  // namespace safetensors::base
