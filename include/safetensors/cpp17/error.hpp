/// @file
/// A part of the C++17 interface: Error, Status and Result, and printable(). Include safetensors.hpp instead of this
/// header, and read there about errors, lifetimes and threads.
#pragma once

#include <safetensors/c.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace safetensors17 {
inline namespace v0 {

/// @cond
namespace detail {
// The result of deleted functions: the error of the compiler shows it.
struct GiveTheObjectANameFirst;
}  // namespace detail
/// @endcond

/// An error: the failure, the file and the byte. It is a value without allocations. Copy it from any thread.
class [[nodiscard]] Error {
 public:
  /// Makes the error with code SAFETENSORS_OK, which is none.
  Error() noexcept {
    c_.code = SAFETENSORS_OK;
    c_.os_error = 0;
    c_.offset = SAFETENSORS_NO_OFFSET;
    c_.message[0] = c_.path[0] = '\0';
  }
  /// Makes an error of your own, for example in a source. Cuts a message of more than 511 bytes.
  Error(safetensors_status code, std::string_view message) noexcept : Error() {
    c_.code = code;
    const std::size_t length = message.size() < sizeof c_.message ? message.size() : sizeof c_.message - 1;
    message.copy(c_.message, length);
    c_.message[length] = '\0';
  }

  /// Returns the status code: SAFETENSORS_OK or one of `SAFETENSORS_ERROR_...`.
  [[nodiscard]] safetensors_status code() const noexcept { return c_.code; }
  /// Returns the name of the code, such as "invalid_offset". The memory is static.
  [[nodiscard]] const char* name() const noexcept { return safetensors_status_name(c_.code); }
  /// Returns the rule of the format (1 to 10) that the file breaks, or 0 when the file is not the cause.
  [[nodiscard]] int rule() const noexcept { return safetensors_status_rule(c_.code); }
  /// Returns true when the system is the cause (memory, open, read, write, device).
  [[nodiscard]] bool is_system_error() const noexcept { return safetensors_status_is_system_error(c_.code) != 0; }
  /// Returns `errno` as the system gave it, or 0.
  [[nodiscard]] int os_error() const noexcept { return c_.os_error; }
  /// Returns the position in bytes from the start of the file, or SAFETENSORS_NO_OFFSET.
  [[nodiscard]] std::uint64_t offset() const noexcept { return c_.offset; }
  /// @{
  /// Returns one sentence that is safe to show, and the path as the caller gave it, which is not escaped. Both end with
  /// NUL, and are valid as long as the Error. The path may be empty.
  [[nodiscard]] const char* message() const& noexcept { return c_.message; }
  [[nodiscard]] const char* path() const& noexcept { return c_.path; }
  detail::GiveTheObjectANameFirst message() const&& = delete;
  detail::GiveTheObjectANameFirst path() const&& = delete;
  /// @}
  /// Returns "path: message (byte 17)", escaped so that it is safe to show. Allocates the string.
  [[nodiscard]] std::string to_string() const {
    char text[4096];  // the longest text of an error: each byte of the path is escaped with at most six
    std::size_t length = 0;
    (void)safetensors_error_format(&c_, text, sizeof text, &length, nullptr);
    return {text, length < sizeof text ? length : sizeof text - 1};
  }

  /// @{
  /// Returns the struct of the C interface. Pass its address to C functions.
  [[nodiscard]] safetensors_error& c() noexcept { return c_; }
  [[nodiscard]] const safetensors_error& c() const noexcept { return c_; }
  /// @}

 private:
  safetensors_error c_;
};

/// @cond
namespace detail {
[[noreturn]] inline void stop(const char* call, const Error* error) noexcept {
  char text[4096] = "there is no error";
  std::size_t length = 0;
  if (error != nullptr) (void)safetensors_error_format(&error->c(), text, sizeof text, &length, nullptr);
  std::fprintf(stderr, "safetensors: %s: %s\n", call, text);
  std::abort();
}
}  // namespace detail
/// @endcond

/// Success or an Error. A Status is true after success.
class [[nodiscard]] Status {
 public:
  /// Makes a success.
  Status() noexcept = default;
  /// Makes a failure, or a success if the code of `error` is SAFETENSORS_OK.
  Status(const Error& error) noexcept : error_(error) {}  // NOLINT(google-explicit-constructor)

  /// @{
  /// Returns true after success.
  [[nodiscard]] bool ok() const noexcept { return error_.code() == SAFETENSORS_OK; }
  [[nodiscard]] explicit operator bool() const noexcept { return ok(); }
  /// @}
  /// Returns the error. Its code is SAFETENSORS_OK after success. The reference is valid as long as the Status.
  [[nodiscard]] const Error& error() const& noexcept { return error_; }
  /// Returns a copy of the error.
  [[nodiscard]] Error error() && noexcept { return error_; }

 private:
  Error error_;
};

/// A value or an Error. A Result is true when it has a value. T may be a type that is only moved. Nothing is allocated.
template <class T>
class [[nodiscard]] Result {
  static_assert(std::is_nothrow_move_constructible_v<T>, "a value moves without exceptions");

 public:
  /// @{
  /// Makes a Result with a value. `return value;` moves a local variable, also one that cannot be copied.
  Result(T&& value) noexcept : ok_(true), value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(const T& value) : ok_(true), value_(value) {}                 // NOLINT(google-explicit-constructor)
  /// @}
  /// Makes a Result with an error, whose code should not be SAFETENSORS_OK.
  Result(const Error& error) noexcept : ok_(false), error_(error) {}  // NOLINT(google-explicit-constructor)
  /// @{
  /// Moves the value or the error. A Result that had a value still has one, which was moved from.
  Result(Result&& other) noexcept : ok_(other.ok_) { take(other); }
  Result& operator=(Result&& other) noexcept {
    if (this == &other) return *this;
    clear();
    ok_ = other.ok_;
    take(other);
    return *this;
  }
  /// @}
  ~Result() { clear(); }

  /// @{
  /// Returns true when there is a value.
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] explicit operator bool() const noexcept { return ok_; }
  /// @}
  /// @{
  /// Returns the value. If there is none, prints the error to stderr and ends the program with std::abort().
  [[nodiscard]] T& value() & noexcept { return checked(); }
  [[nodiscard]] const T& value() const& noexcept { return const_cast<Result*>(this)->checked(); }
  [[nodiscard]] T value() && noexcept { return std::move(checked()); }
  [[nodiscard]] T& operator*() & noexcept { return checked(); }
  [[nodiscard]] const T& operator*() const& noexcept { return value(); }
  [[nodiscard]] T operator*() && noexcept { return std::move(checked()); }
  [[nodiscard]] T* operator->() & noexcept { return &checked(); }
  [[nodiscard]] const T* operator->() const& noexcept { return &value(); }
  /// @}
  detail::GiveTheObjectANameFirst operator->() && = delete;
  /// Moves the value out, or returns `fallback` if there is none.
  [[nodiscard]] T value_or(T fallback) && noexcept { return ok_ ? std::move(value_) : std::move(fallback); }
  /// Returns the error. The reference is valid as long as the Result. If there is a value, ends the program.
  [[nodiscard]] const Error& error() const& noexcept {
    if (ok_) detail::stop("error() of a Result with a value", nullptr);
    return error_;
  }
  /// Returns a copy of the error. If there is a value, ends the program.
  [[nodiscard]] Error error() && noexcept { return std::as_const(*this).error(); }

 private:
  T& checked() noexcept {
    if (!ok_) detail::stop("value of a Result with an error", &error_);
    return value_;
  }
  void take(Result& other) noexcept {
    if (ok_) {
      new (static_cast<void*>(std::addressof(value_))) T(std::move(other.value_));
    } else {
      new (static_cast<void*>(std::addressof(error_))) Error(other.error_);
    }
  }
  void clear() noexcept {
    if (ok_) value_.~T();
  }

  bool ok_;
  union {
    T value_;
    Error error_;
  };
};

/// Returns text of a file, escaped so that it is safe to show on a terminal. Allocates the string.
[[nodiscard]] inline std::string printable(std::string_view text) {
  std::size_t length = 0;
  (void)safetensors_printable(text.data(), text.size(), nullptr, 0, &length, nullptr);
  std::string shown(length + 1, '\0');  // the last byte is the NUL
  (void)safetensors_printable(text.data(), text.size(), &shown[0], shown.size(), nullptr, nullptr);
  shown.pop_back();
  return shown;
}

}  // namespace v0
}  // namespace safetensors17
