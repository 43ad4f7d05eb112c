// A strict pull reader for JSON (RFC 8259): the caller says what he expects next.
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

// What went wrong, and at which byte of the text.
struct Failure {
  Errc code = Errc::ok;
  std::size_t at = 0;
  const char* what = "";  // "expected a string"
};

// Functions return false on failure and leave it in failure(); nothing may be read after that. Text that is not UTF-8
// anywhere fails as that, whatever else is wrong with it, at the latest when end() is asked.
class Reader {
 public:
  // What must follow the text: one NUL, and more bytes that may hold anything but must be readable.
  static constexpr std::size_t kPadding = 32;
  // Open containers, the outermost included.
  static constexpr unsigned kMaxDepth = 127;

  // Strings are unescaped in place: the text is changed. cancellation: null, or asked every 64 KiB; what is read then
  // fails as Errc::cancelled.
  Reader(char* text, std::size_t size, base::Cancellation* cancellation = nullptr) noexcept
      : begin_(text),
        end_(text + size),
        at_(text),
        cancellation_(cancellation),
        look_(cancellation != nullptr ? 0 : kNever) {}

  // The next byte that is not white space, or NUL at the end (or for a NUL in the text, which nothing accepts).
  [[nodiscard]] char peek() noexcept {
    if (*at_ <= ' ') skip_space();
    return *at_;
  }
  // Consumes c, if it is what peek() gives.
  [[nodiscard]] bool consume(char c) noexcept {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  // A string; the view points into the text.
  [[nodiscard]] bool string(std::string_view& out) noexcept;
  // Digits only, 0 to 2^64-1; else json_integer for a number, json_type for another value.
  [[nodiscard]] bool integer(std::uint64_t& out) noexcept;
  [[nodiscard]] bool null() noexcept;
  // `{` of an object; false with json_type for another value.
  [[nodiscard]] bool open(char bracket, const char* what) noexcept;
  // After a value: a comma (more is true) or the closing bracket (more is false).
  [[nodiscard]] bool next(char bracket, bool& more) noexcept;
  // A key and its colon. start: the byte of the opening quote.
  [[nodiscard]] bool key(std::string_view& out, std::size_t& start) noexcept;
  // key() where nothing but `"NAME":` stands, without white space or escapes; false, with nothing read, anywhere else.
  [[nodiscard]] bool plain_key(std::string_view& out) noexcept {
    if (*at_ != '"') return false;
    char* const stop = scan_string(at_ + 1);
    if (stop[0] != '"' || stop[1] != ':') return false;
    out = {at_ + 1, static_cast<std::size_t>(stop - at_ - 1)};
    at_ = stop + 2;
    return true;
  }
  // Any value, ignored. open: containers open around it.
  [[nodiscard]] bool skip_value(unsigned open) noexcept;
  // Nothing but white space is left, and all of the text was UTF-8.
  [[nodiscard]] bool end() noexcept;

  // Whether a value of any type begins here: the wrong type then, not a syntax error.
  [[nodiscard]] bool fail_type(const char* what) noexcept;
  [[nodiscard]] bool fail(Errc code, std::size_t at, const char* what) noexcept;
  [[nodiscard]] bool fail_here(const char* what) noexcept;

  [[nodiscard]] const Failure& failure() const noexcept { return failure_; }
  // Where the next byte is read. Moving it on is for a caller who has recognized the bytes himself.
  [[nodiscard]] char* at() const noexcept { return at_; }
  void move_to(char* at) noexcept { at_ = at; }
  [[nodiscard]] std::size_t offset() const noexcept { return static_cast<std::size_t>(at_ - begin_); }
  [[nodiscard]] std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }

  // The first byte at or after `at` that a string cannot hold as it is: a quote, a backslash, a control character.
  [[nodiscard]] char* scan_string(char* at) noexcept;

 private:
  static constexpr std::size_t kNever = ~std::size_t{0};

  struct Number {
    bool digits_only = true;  // no sign, fraction or exponent
    std::size_t size = 0;
    std::int64_t magnitude = 0;  // of the first digit that is not 0, as a power of ten
    bool zero = true;
  };

  void skip_space() noexcept;
  bool check_utf8() noexcept;
  // false: cancelled.
  [[nodiscard]] bool go_on() noexcept { return offset() < look_ || look(); }
  bool look() noexcept;
  bool unescape(char* write, std::string_view& out, char* start) noexcept;
  bool escape(char*& write) noexcept;
  bool hex4(char32_t& out) noexcept;
  bool number(Number& out) noexcept;
  bool digits(Number& out, bool fraction) noexcept;
  bool exponent(Number& out) noexcept;
  bool skip_number() noexcept;
  bool skip_literal(std::string_view literal) noexcept;
  bool skip_scalar() noexcept;

  char* begin_;
  char* end_;
  char* at_;
  base::Cancellation* cancellation_;
  std::size_t look_;  // the offset at which the cancellation is asked again
  // All that is read outside of strings is ASCII, so the text is looked at for UTF-8 only if a string is not, before
  // an escape changes the text, and when something fails.
  bool ascii_ = true;
  bool checked_ = false;
  Failure failure_;
};

inline char* Reader::scan_string(char* at) noexcept {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i control = _mm_set1_epi8(0x1F);
  // Reads at most 15 bytes past the NUL that ends the text: kPadding.
  for (;; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, backslash)),
                                       _mm_cmpeq_epi8(_mm_min_epu8(block, control), block));
    if (_mm_movemask_epi8(block) != 0) ascii_ = false;  // also for what stands behind the string: no harm
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(found));
    if (mask != 0) return at + __builtin_ctz(mask);
  }
#else
  for (; *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20; ++at) {
    if (static_cast<unsigned char>(*at) >= 0x80) ascii_ = false;
  }
  return at;
#endif
}

}  // namespace safetensors::json
