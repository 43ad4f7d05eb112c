// A strict pull reader for JSON (RFC 8259): the caller states the token that they expect next.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/cancellation.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace safetensors::json {

// The first error of a text.
struct Failure {
  Errc code = Errc::ok;
  std::size_t offset = 0;  // bytes from the start of the text
  const char* what = "";   // a static text, such as "expected a string"
};

// Functions return false on failure and store the Failure in failure(). After a failure the caller must not read on.
// Text with invalid UTF-8 anywhere fails with Errc::invalid_utf8, even if it has other errors too. That failure comes
// with the first other error or escape, or from end().
class Reader {
 public:
  // Bytes that must follow the text: first a NUL, then bytes of any value. All of them must be readable.
  static constexpr std::size_t kPadding = 32;
  // Maximum number of open containers, the outermost included.
  static constexpr unsigned kMaxDepth = 127;

  // The text must outlive this, and its views. The reader unescapes strings in place, so it changes the text.
  // cancellation: may be null. The reader asks it every 64 KiB of text. After a cancellation the next read fails with
  // Errc::cancelled.
  Reader(char* text, std::size_t size, base::Cancellation* cancellation = nullptr) noexcept
      : begin_(text),
        end_(text + size),
        position_(text),
        cancellation_(cancellation),
        next_check_(cancellation != nullptr ? 0 : kNever) {}

  // Skips white space and returns the next byte without consuming it. Returns NUL at the end of the text. A NUL in the
  // text looks the same here, but no function accepts it.
  [[nodiscard]] char peek() noexcept {
    if (*position_ <= ' ') skip_space();
    return *position_;
  }
  // Consumes the next byte if peek() returns c.
  [[nodiscard]] bool consume(char c) noexcept {
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  // Reads a string. out points into the text.
  [[nodiscard]] bool string(std::string_view& out) noexcept;
  // Reads an integer from 0 to 2^64-1 in digits only. Fails with json_integer for any other number, and with json_type
  // for a value of another type.
  [[nodiscard]] bool integer(std::uint64_t& out) noexcept;
  // Reads `null`. Returns false without a failure if the next byte is not an n.
  [[nodiscard]] bool null() noexcept;
  // Reads the opening bracket of an object or an array. Fails with json_type and `what` for a value of another type.
  [[nodiscard]] bool open(char bracket, const char* what) noexcept;
  // Reads the token after a value: a comma (more becomes true) or the closing bracket (more becomes false).
  [[nodiscard]] bool next(char bracket, bool& more) noexcept;
  // Reads a key and its colon. start: receives the offset of the opening quote.
  [[nodiscard]] bool key(std::string_view& out, std::size_t& start) noexcept;
  // Reads an object. member: takes the key of a member and the offset of its opening quote, reads the value, and
  // returns false on failure. what: as for open().
  template <class Member>
  [[nodiscard]] bool members(const char* what, const Member& member) {
    if (!open('{', what)) return false;
    for (bool more = !consume('}'); more;) {
      std::string_view name;
      std::size_t start = 0;
      if (!key(name, start) || !member(name, start) || !next('}', more)) return false;
    }
    return true;
  }
  // Fast variant of key() for `"NAME":` without white space and escapes. Returns false for any other text, reads
  // nothing then, and stores no failure.
  [[nodiscard]] bool plain_key(std::string_view& out) noexcept {
    if (*position_ != '"') return false;
    char* const stop = scan_string(position_ + 1);
    if (stop[0] != '"' || stop[1] != ':') return false;
    out = {position_ + 1, static_cast<std::size_t>(stop - position_ - 1)};
    position_ = stop + 2;
    return true;
  }
  // Checks and skips a value of any type. open: the number of containers that are open around it.
  [[nodiscard]] bool skip_value(unsigned open) noexcept;
  // The same for a string, a number or a literal.
  [[nodiscard]] bool skip_scalar() noexcept;
  // Checks that only white space remains and that all of the text is UTF-8.
  [[nodiscard]] bool end() noexcept;

  // The fail functions store a failure and return false, so that a function can return their result.
  // fail_type(): json_type if a value of any type begins here, else json_syntax.
  [[nodiscard]] bool fail_type(const char* what) noexcept;
  [[nodiscard]] bool fail(Errc code, std::size_t offset, const char* what) noexcept;
  // json_syntax at offset().
  [[nodiscard]] bool fail_here(const char* what) noexcept;

  [[nodiscard]] const Failure& failure() const noexcept { return failure_; }
  // The next byte to read. A caller who recognizes bytes without the reader uses move_to() to skip them.
  [[nodiscard]] char* position() const noexcept { return position_; }
  void move_to(char* position) noexcept { position_ = position; }
  [[nodiscard]] std::size_t offset() const noexcept { return static_cast<std::size_t>(position_ - begin_); }
  [[nodiscard]] std::size_t remaining() const noexcept { return static_cast<std::size_t>(end_ - position_); }

  // Returns the first byte from `position` on that ends the plain part of a string: a quote, a backslash or a control
  // character. The NUL after the text always stops the scan.
  [[nodiscard]] char* scan_string(char* position) noexcept;

 private:
  static constexpr std::size_t kNever = ~std::size_t{0};

  struct Number {
    bool digits_only = true;     // no sign, fraction or exponent
    std::size_t size = 0;        // bytes of text
    std::int64_t magnitude = 0;  // the power of ten of the first digit that is not 0
    bool zero = true;            // every digit until now is 0
  };

  void skip_space() noexcept;
  bool check_utf8() noexcept;
  // Returns false if the call is cancelled.
  [[nodiscard]] bool go_on() noexcept { return offset() < next_check_ || check_cancelled(); }
  bool check_cancelled() noexcept;
  bool unescape(char* write, std::string_view& out, char* start) noexcept;
  bool escape(char*& write) noexcept;
  bool hex4(char32_t& out) noexcept;
  bool number(Number& out) noexcept;
  bool digits(Number& out, bool fraction) noexcept;
  bool exponent(Number& out) noexcept;
  bool skip_number() noexcept;
  bool skip_literal(std::string_view literal) noexcept;

  char* begin_;
  char* end_;
  char* position_;
  base::Cancellation* cancellation_;
  std::size_t next_check_;  // the reader asks the cancellation again from this offset on
  // False after the first string that is not ASCII. Text outside of strings can only be ASCII. So the reader checks for
  // UTF-8 in three cases only: at the end if this is false, before an escape changes the text, and on a failure.
  bool ascii_ = true;
  bool checked_ = false;
  Failure failure_;
};

inline char* Reader::scan_string(char* position) noexcept {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i control = _mm_set1_epi8(0x1F);
  // A load reads at most 15 bytes past the NUL after the text. kPadding covers them.
  for (;; position += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(position));
    const __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                                       _mm_cmpeq_epi8(_mm_min_epu8(bytes, control), bytes));
    // The bytes after the string count too. They can only cause a UTF-8 check that is not needed.
    if (_mm_movemask_epi8(bytes) != 0) ascii_ = false;
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(found));
    if (mask != 0) return position + __builtin_ctz(mask);
  }
#else
  for (; *position != '"' && *position != '\\' && static_cast<unsigned char>(*position) >= 0x20; ++position) {
    if (static_cast<unsigned char>(*position) >= 0x80) ascii_ = false;
  }
  return position;
#endif
}

}  // namespace safetensors::json
