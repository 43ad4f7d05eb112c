// Errors: what went wrong, where, and the Result/Status that carry it.
//
// No function of this library throws. A caller who wants exceptions calls value(), which throws
// safetensors::Exception (and terminates when compiled with -fno-exceptions).
//
// Reading a Result or Status in the wrong state (`*result` of an error, `error()` of a success) is undefined. Where
// NDEBUG is not defined it is an assertion that names the mistake.
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
#include <variant>

namespace safetensors {
inline namespace v0 {

// The numbers are pinned: they are also the status codes of the C interface. Codes 10-109 are the rules of the
// format, ten numbers to a rule (docs/format.md): rule = code / 10, in the order in which the checks run.
enum class Errc : std::uint16_t {
  ok = 0,

  header_too_small = 10,         // rule 1: fewer than 8 bytes
  header_too_large = 20,         // rule 2: header length over ParseOptions::max_header_bytes
  invalid_header_length = 30,    // rule 3: header ends past the end of the file
  invalid_utf8 = 40,             // rule 4
  json_syntax = 50,              // rule 5: not JSON
  json_leading_whitespace = 51,  // rule 5: does not begin with {
  json_depth = 52,               // rule 5: more than 127 open containers
  json_number = 53,              // rule 5: a number in an ignored value rounds to infinity
  json_type = 54,                // rule 5: JSON, but not of the type the format asks for here
  json_integer = 55,             // rule 5: not an integer from 0 to 2^64-1 written in digits only
  unknown_dtype = 56,            // rule 5
  missing_field = 57,            // rule 5: dtype, shape or data_offsets
  duplicate_key = 58,            // rule 5: only reported when nothing else of rule 5 is wrong
  invalid_offset = 60,           // rule 6: hole, overlap, or end before begin
  size_overflow = 70,            // rule 7: number of bits over 2^64-1
  misaligned_size = 80,          // rule 8: a sub-byte dtype that does not fill whole bytes
  size_mismatch = 90,            // rule 9: data_offsets do not span what dtype and shape need
  incomplete_data = 100,         // rule 10: the file is shorter or longer than the tensors

  invalid_index = 110,         // of a model of several files: which tensor is in which
  ambiguous_checkpoint = 111,  // a folder with several files or indexes, and none that comes first

  reserved_name = 120,      // a tensor may not be called __metadata__
  duplicate_name = 121,     // a tensor or metadata key was added twice, or a tensor is in two files
  data_length = 122,        // bytes given do not match dtype and shape
  invalid_alignment = 123,  // not a power of two from 1 to 65536
  overlapping_write = 130,  // a byte of a tensor was written twice
  incomplete_write = 131,   // commit() while a byte is missing
  writer_closed = 132,      // used after commit() or after being moved from

  invalid_argument = 140,
  not_found = 141,          // no tensor or metadata key of that name
  dtype_mismatch = 142,     // Array::as<T>() of another dtype
  misaligned_memory = 143,  // Array::as<T>() of memory that T cannot be read from
  buffer_size = 144,        // destination is not exactly as large as the result
  not_writable = 145,       // memory is read-only

  slice_index = 150,  // an index out of range
  slice_step = 151,   // step 0
  slice_rank = 152,   // more indices than dimensions
  slice_bits = 153,   // a slice of a sub-byte dtype that does not fall on byte boundaries
  slice_syntax = 154,

  out_of_memory = 160,
  open_failed = 170,  // os_error says why
  not_regular_file = 171,
  read_failed = 172,
  write_failed = 173,
  sync_failed = 174,
  replace_failed = 175,        // the file could not be put in its place; the old one is untouched
  replaced_not_durable = 176,  // the new file is in place, but may be gone after a power cut
  file_truncated = 177,        // the file became shorter after it was opened
  file_changed = 178,          // the path leads to another file than the one opened, or the file was changed since
  map_failed = 179,
  unsupported = 180,
  device_failed = 181,        // the driver of an accelerator refused; the message has its reason
  header_does_not_fit = 182,  // edit in place: the new header is longer than the old one
  cancelled = 190,
};

// The name of a code as written above, such as "invalid_offset"; "unknown" for a number that is none.
[[nodiscard]] SAFETENSORS_API const char* to_string(Errc code) noexcept;

// The number of the format's rule (1 to 10) that a code reports, or 0 when the file was not at fault.
[[nodiscard]] constexpr int format_rule(Errc code) noexcept {
  const int number = static_cast<int>(code);
  return number >= 10 && number < 110 ? number / 10 : 0;
}

// Whether the system refused (memory, open, read, write, device): not the file's fault and not the caller's.
[[nodiscard]] constexpr bool is_system_error(Errc code) noexcept {
  return (code >= Errc::out_of_memory && code < Errc::unsupported) || code == Errc::device_failed;
}

// Text safe to show: control, bidirectional, zero-width and other invisible characters and bytes that are not
// UTF-8 become \u{..} or \x.. ; backslash becomes \\ . Names and metadata come from strangers.
[[nodiscard]] SAFETENSORS_API std::string printable(std::string_view text);

struct Error {
  static constexpr std::uint64_t kNoOffset = ~std::uint64_t{0};

  Errc code = Errc::ok;
  int os_error = 0;                  // errno, or 0
  std::uint64_t offset = kNoOffset;  // byte in the file, counted from its start, or kNoOffset
  std::string path = {};             // of the file, or empty
  std::string message = {};          // one lower-case sentence: what, where, both numbers; without the path

  // "path: message (byte 17)": what there is of it, path made printable.
  [[nodiscard]] SAFETENSORS_API std::string to_string() const;
};

class SAFETENSORS_API Exception : public std::exception {
 public:
  explicit Exception(Error error) : error_(std::move(error)), what_(error_.to_string()) {}
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
  std::string what_;
};

namespace detail {
[[noreturn]] inline void throw_error(const Error& error) {
#if defined(__cpp_exceptions)
  throw Exception(error);
#else
  (void)error;
  std::terminate();
#endif
}
}  // namespace detail

// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Error error) noexcept : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return ok(); }

  // Only when !ok().
  [[nodiscard]] const Error& error() const& noexcept {
    assert(!ok() && "error of a Status that is ok");
    return *error_;
  }
  [[nodiscard]] Error error() && noexcept {
    assert(!ok() && "error of a Status that is ok");
    return std::move(*error_);
  }

  // Throws Exception when !ok().
  void value() const {
    if (error_) detail::throw_error(*error_);
  }

 private:
  std::optional<Error> error_;
};

// A T, or an Error.
template <class T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_same_v<std::remove_cv_t<T>, Error>);

 public:
  using value_type = T;

  Result(T value) noexcept(std::is_nothrow_move_constructible_v<T>)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) noexcept : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  // Only when !ok().
  [[nodiscard]] const Error& error() const& noexcept { return *failure(); }
  [[nodiscard]] Error error() && noexcept { return std::move(*const_cast<Error*>(failure())); }

  // Throws Exception when !ok(). Of a temporary Result, by value: nothing is left to dangle.
  [[nodiscard]] T& value() & { return *checked(); }
  [[nodiscard]] const T& value() const& { return *const_cast<Result*>(this)->checked(); }
  [[nodiscard]] T value() && { return std::move(*checked()); }

  // Only when ok().
  [[nodiscard]] T& operator*() & noexcept { return *const_cast<T*>(held()); }
  [[nodiscard]] const T& operator*() const& noexcept { return *held(); }
  [[nodiscard]] T operator*() && noexcept { return std::move(*const_cast<T*>(held())); }
  [[nodiscard]] T* operator->() & noexcept { return const_cast<T*>(held()); }
  [[nodiscard]] const T* operator->() const& noexcept { return held(); }
  T* operator->() && = delete;  // would point into a temporary: name the Result first

  [[nodiscard]] T value_or(T other) && { return ok() ? std::move(**this) : std::move(other); }

 private:
  const T* held() const noexcept {
    assert(ok() && "value of a Result that holds an error");
    return std::get_if<0>(&state_);
  }
  const Error* failure() const noexcept {
    assert(!ok() && "error of a Result that is ok");
    return std::get_if<1>(&state_);
  }
  T* checked() {
    if (!ok()) detail::throw_error(*std::get_if<1>(&state_));
    return std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

}  // namespace v0
}  // namespace safetensors
