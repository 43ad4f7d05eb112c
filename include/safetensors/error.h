/// @file
/// Error codes, errors, and the types Result and Status that return them.
///
/// The functions of this library do not throw. If you want exceptions, call `value()`. It throws
/// safetensors::Exception, or terminates the program when you compile with `-fno-exceptions`.
///
/// Check a Result or Status before you use it. `*result` on an error and `error()` on a success are undefined
/// behaviour. Without `NDEBUG`, an assertion stops the program and names the mistake.
///
/// Thread-safety: each Error, Result and Status is a value, like a std::string. Threads may read one at the same time,
/// and may not change it meanwhile.
#pragma once

#include <safetensors/export.h>

#include <cassert>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// Error codes. The numbers never change: they are also the status codes of the C interface.
///
/// Codes 10 to 109 report the ten rules of the format (docs/format.md). Each rule has ten numbers: rule = code / 10.
/// The rules are checked in the order of their numbers.
enum class Errc : std::uint16_t {
  ok = 0,  ///< no error

  header_too_small = 10,         ///< rule 1: the file has fewer than 8 bytes
  header_too_large = 20,         ///< rule 2: the header is longer than ParseOptions::max_header_bytes
  invalid_header_length = 30,    ///< rule 3: the header ends after the end of the file
  invalid_utf8 = 40,             ///< rule 4: the header is not valid UTF-8
  json_syntax = 50,              ///< rule 5: the header is not JSON
  json_leading_whitespace = 51,  ///< rule 5: the header does not begin with `{`
  json_depth = 52,               ///< rule 5: more than 127 open containers
  json_number = 53,              ///< rule 5: a number in an ignored value rounds to infinity
  json_type = 54,                ///< rule 5: JSON, but not of the type that the format requires here
  json_integer = 55,             ///< rule 5: not an integer from 0 to 2^64-1 that is written in digits only
  unknown_dtype = 56,            ///< rule 5: the dtype is not a name of the format
  missing_field = 57,            ///< rule 5: `dtype`, `shape` or `data_offsets` is missing
  duplicate_key = 58,            ///< rule 5: a key occurs twice; reported only if nothing else breaks rule 5
  invalid_offset = 60,           ///< rule 6: a hole, an overlap, or an end before its begin
  size_overflow = 70,            ///< rule 7: the number of bits is larger than 2^64-1
  misaligned_size = 80,          ///< rule 8: the elements of a sub-byte dtype do not fill whole bytes
  size_mismatch = 90,            ///< rule 9: the size of `data_offsets` differs from the size of dtype and shape
  incomplete_data = 100,         ///< rule 10: the file is shorter or longer than its tensors

  invalid_index = 110,         ///< the index of a sharded checkpoint (which tensor is in which file) is invalid
  ambiguous_checkpoint = 111,  ///< a folder has several files or indexes, and none of them has precedence

  reserved_name = 120,      ///< a tensor cannot be named `__metadata__`
  duplicate_name = 121,     ///< a tensor or metadata key was added twice, or a tensor is in two files
  data_length = 122,        ///< the number of bytes does not match dtype and shape
  invalid_alignment = 123,  ///< not a power of two from 1 to 65536
  overlapping_write = 130,  ///< a byte of a tensor was written twice
  incomplete_write = 131,   ///< commit() was called while bytes were missing
  writer_closed = 132,      ///< the Writer was used after commit() or after a move from it

  invalid_argument = 140,         ///< an argument is invalid; the message names it
  not_found = 141,                ///< there is no tensor, metadata key or file with this name
  dtype_mismatch = 142,           ///< the tensor has another dtype than the call needs, as in Array::as()
  misaligned_memory = 143,        ///< Array::as(): the address is not aligned for the type
  buffer_size = 144,              ///< the destination does not have exactly the size of the result
  not_writable = 145,             ///< the memory is read-only
  shape_mismatch = 146,           ///< the tensor has another shape than the call needs
  overlapping_destination = 147,  ///< two tensors of a plan would be read into the same memory
  value_out_of_range = 148,       ///< a cast of integers: an element is outside the range of the new dtype

  slice_index = 150,           ///< an index is out of range
  slice_step = 151,            ///< a step is 0
  slice_rank = 152,            ///< more indices than dimensions
  slice_bits = 153,            ///< a slice of a sub-byte dtype does not begin and end on byte boundaries
  slice_syntax = 154,          ///< the text is not a slice
  slice_not_contiguous = 155,  ///< the slice has several runs, so it cannot be viewed without a copy

  out_of_memory = 160,         ///< memory could not be allocated
  open_failed = 170,           ///< the file could not be opened; Error::os_error has the reason
  not_regular_file = 171,      ///< the path leads to a directory, a device, a FIFO or a socket
  read_failed = 172,           ///< reading failed; Error::os_error has the reason
  write_failed = 173,          ///< writing failed; Error::os_error has the reason
  sync_failed = 174,           ///< the data could not be made durable; Error::os_error has the reason
  replace_failed = 175,        ///< the new file could not replace the old file; the old file is unchanged
  replaced_not_durable = 176,  ///< the new file is in place, but may be lost after a power cut
  file_truncated = 177,        ///< the file became shorter after it was opened
  file_changed = 178,          ///< the path leads to another file than the one opened, or the file has changed since
  map_failed = 179,            ///< the file could not be mapped into memory
  unsupported = 180,           ///< the system, the file system or the memory does not support the operation
  device_failed = 181,         ///< the driver of an accelerator reported an error; the message has its reason
  header_does_not_fit = 182,   ///< edit in place: the new header is longer than the old one
  cancelled = 190,             ///< a callback of the caller ended the operation
};

/// Returns the name of a code, such as "invalid_offset". Returns "unknown" for any other number.
[[nodiscard]] SAFETENSORS_API const char* to_string(Errc code) noexcept;

/// Returns the rule of the format (1 to 10) that a code reports. Returns 0 when the file is not the cause.
[[nodiscard]] constexpr int format_rule(Errc code) noexcept {
  const int number = static_cast<int>(code);
  return number >= 10 && number < 110 ? number / 10 : 0;
}

/// Returns true when the system is the cause (memory, open, read, write, device), not the file and not the caller.
[[nodiscard]] constexpr bool is_system_error(Errc code) noexcept {
  return (code >= Errc::out_of_memory && code < Errc::unsupported) || code == Errc::device_failed;
}

/// Escapes text so that it is safe to show.
///
/// Names and metadata come from files that you may not trust. Control, bidirectional, zero-width and other invisible
/// characters become `\u{..}`. Bytes that are not UTF-8 become `\x..`. A backslash becomes two.
/// May throw `std::bad_alloc`.
[[nodiscard]] SAFETENSORS_API std::string printable(std::string_view text);

/// An error: the failure, the file and the byte.
struct Error {
  /// Value of `offset` when the error has no position in a file.
  static constexpr std::uint64_t kNoOffset = ~std::uint64_t{0};

  Errc code = Errc::ok;              ///< the error code
  int os_error = 0;                  ///< `errno`, or 0
  std::uint64_t offset = kNoOffset;  ///< bytes from the start of the file, or kNoOffset
  std::string path = {};             ///< path of the file, or empty; not escaped
  std::string message = {};          ///< one lower-case sentence with the values found and expected; without the path

  /// Returns "path: message (byte 17)". Leaves out the parts that are not set. Escapes the path. May throw
  /// `std::bad_alloc`.
  [[nodiscard]] SAFETENSORS_API std::string to_string() const;
};

/// The exception that `value()` of Status and Result throws. It carries the Error.
class SAFETENSORS_API_CLASS Exception : public std::exception {
 public:
  /// Takes the error. `what()` returns its Error::to_string().
  explicit Exception(Error error) : error_(std::move(error)), what_(error_.to_string()) {}
  /// Returns Error::to_string(). Valid as long as the exception.
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }
  /// Returns the error. Valid as long as the exception.
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
  std::string what_;
};

namespace detail {
// Specialized in the library's own sources: its way to the private members of T.
template <class T>
struct Access;

// The return type of deleted overloads for temporaries. The error "use of deleted function" shows its name. The result
// would point into an object that is destroyed at the end of the statement. So keep the object in a variable:
//   const File file = tensor.file();
//   file.path();
struct GiveTheObjectANameFirst {};

// A type in the signature of deleted overloads for temporary containers. The library does not copy their elements, so
// the container must outlive the call:
//   const std::vector<float> elements = make();
//   NamedTensor("w", {2}, elements);
struct KeepTheElementsInAVariable {};

[[noreturn]] inline void throw_error(const Error& error) {
#if defined(__cpp_exceptions)
  throw Exception(error);
#else
  (void)error;
  std::terminate();
#endif
}
}  // namespace detail

/// Success, or an Error.
class [[nodiscard]] Status {
 public:
  /// Makes a success.
  Status() noexcept = default;
  /// Makes a failure.
  Status(Error error) noexcept : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  /// Returns true on success.
  [[nodiscard]] bool ok() const noexcept { return !error_; }
  /// The same as ok().
  explicit operator bool() const noexcept { return ok(); }

  /// @{
  /// Returns the error. Call it only when ok() is false.
  [[nodiscard]] const Error& error() const& noexcept {
    assert(!ok() && "error of a success");
    return *error_;
  }
  [[nodiscard]] Error error() && noexcept { return std::move(const_cast<Error&>(std::as_const(*this).error())); }
  /// @}

  /// Throws Exception when ok() is false.
  void value() const {
    if (error_) detail::throw_error(*error_);
  }

 private:
  std::optional<Error> error_;
};

/// A value of type T, or an Error.
template <class T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_same_v<std::remove_cv_t<T>, Error>);

 public:
  /// The type of the value.
  using value_type = T;

  /// Makes a success that holds `value`.
  Result(T value) noexcept(std::is_nothrow_move_constructible_v<T>)  // NOLINT(google-explicit-constructor)
      : value_(std::in_place, std::move(value)) {}
  /// Makes a failure.
  Result(Error error) noexcept : status_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  /// Returns true when the Result holds a value.
  [[nodiscard]] bool ok() const noexcept { return value_.has_value(); }
  /// The same as ok().
  explicit operator bool() const noexcept { return ok(); }

  /// @{
  /// Returns the error. Call it only when ok() is false.
  [[nodiscard]] const Error& error() const& noexcept { return status_.error(); }
  [[nodiscard]] Error error() && noexcept { return std::move(status_).error(); }
  /// @}

  /// @{
  /// Returns the value, or throws Exception when ok() is false. A temporary Result returns the value itself instead of
  /// a reference, so that no reference can dangle.
  [[nodiscard]] T& value() & { return status_.value(), *value_; }
  [[nodiscard]] const T& value() const& { return status_.value(), *value_; }
  [[nodiscard]] T value() && { return status_.value(), *std::move(value_); }
  /// @}

  /// @{
  /// Accesses the value. Use it only when ok() is true.
  [[nodiscard]] T& operator*() & noexcept { return *const_cast<T*>(held()); }
  [[nodiscard]] const T& operator*() const& noexcept { return *held(); }
  [[nodiscard]] T operator*() && noexcept { return std::move(*const_cast<T*>(held())); }
  [[nodiscard]] T* operator->() & noexcept { return const_cast<T*>(held()); }
  [[nodiscard]] const T* operator->() const& noexcept { return held(); }
  /// @}
  detail::GiveTheObjectANameFirst operator->() && = delete;

  /// @{
  /// Returns the value, or `other` when ok() is false.
  [[nodiscard]] T value_or(T other) && { return ok() ? T(std::move(*this).operator*()) : std::move(other); }
  [[nodiscard]] T value_or(T other) const& { return ok() ? **this : std::move(other); }
  /// @}

 private:
  const T* held() const noexcept {
    assert(ok() && "value of a Result that holds an error");
    return value_.operator->();
  }

  // A std::variant would add 1,550 lines to this header, and 57 MB to the memory that the vendored file needs to
  // compile.
  std::optional<T> value_;
  Status status_;
};

}  // namespace v0
}  // namespace safetensors
