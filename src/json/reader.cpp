#include "json/reader.h"

#include <bitset>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"

namespace safetensors::json {
namespace {

constexpr std::size_t kBytesPerLook = std::size_t{64} << 10;

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

}  // namespace

// Must run before the text is changed.
bool Reader::check_utf8() noexcept {
  if (checked_) return true;
  checked_ = true;
  const std::size_t at = base::first_invalid_utf8({begin_, static_cast<std::size_t>(end_ - begin_)});
  return at == std::string_view::npos || fail(Errc::invalid_utf8, at, "this byte begins no valid sequence");
}

bool Reader::fail(Errc code, std::size_t at, const char* what) noexcept {
  if (!check_utf8()) return false;
  failure_ = {code, at, what};
  return false;
}

// Past everything that failed before: a text that nobody waits for is not looked at for its errors.
bool Reader::look() noexcept {
  look_ = left() > kBytesPerLook ? offset() + kBytesPerLook : kNever;
  if (!cancellation_->requested()) return true;
  failure_ = {Errc::cancelled, offset(), base::kOpeningCancelled};
  return false;
}

void Reader::skip_space() noexcept {
  while (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r') ++at_;
}

bool Reader::fail_here(const char* what) noexcept {
  return fail(Errc::json_syntax, offset(), at_ == end_ ? "the text ends too early" : what);
}

bool Reader::fail_type(const char* what) noexcept {
  const char c = peek();
  const std::string_view rest(at_, left());
  const bool value = c == '{' || c == '[' || c == '"' || is_digit(c) || (c == '-' && is_digit(at_[1])) ||
                     rest.starts_with("true") || rest.starts_with("false") || rest.starts_with("null");
  return value ? fail(Errc::json_type, offset(), what) : fail_here(what);
}

bool Reader::open(char bracket, const char* what) noexcept {
  return consume(bracket) || fail_type(what);
}

bool Reader::next(char bracket, bool& more) noexcept {
  if (!go_on()) return false;
  more = consume(',');
  if (more || consume(bracket)) return true;
  return fail_here(bracket == '}' ? "expected , or }" : "expected , or ]");
}

bool Reader::key(std::string_view& out, std::size_t& start) noexcept {
  if (peek() != '"') return fail_here("expected a key in double quotes");
  start = offset();
  if (!string(out)) return false;
  return consume(':') || fail_here("expected : after a key");
}

bool Reader::string(std::string_view& out) noexcept {
  if (peek() != '"') return fail_type("expected a string");
  char* start = ++at_;
  at_ = scan_string(at_);
  if (*at_ != '"') return unescape(at_, out, start);
  out = {start, static_cast<std::size_t>(at_++ - start)};
  return true;
}

// The slow part of string(): at_ stands at something other than the closing quote.
bool Reader::unescape(char* write, std::string_view& out, char* start) noexcept {
  if (!check_utf8()) return false;
  while (true) {
    if (*at_ == '"') break;
    if (*at_ != '\\') {
      return at_ == end_ ? fail(Errc::json_syntax, offset(), "a string is not closed")
                         : fail_here("a control character in a string must be escaped");
    }
    if (!go_on() || !escape(write)) return false;
    char* stop = scan_string(at_);
    const auto size = static_cast<std::size_t>(stop - at_);
    std::memmove(write, at_, size);
    write += size;
    at_ = stop;
  }
  ++at_;
  out = {start, static_cast<std::size_t>(write - start)};
  return true;
}

bool Reader::hex4(char32_t& out) noexcept {
  out = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = *at_;
    const int letter = (c | 0x20) - 'a';
    if (!is_digit(c) && (letter < 0 || letter > 5)) return fail_here("expected four hexadecimal digits after \\u");
    out = out << 4 | static_cast<char32_t>(is_digit(c) ? c - '0' : letter + 10);
  }
  return true;
}

// One escape, from its backslash on.
bool Reader::escape(char*& write) noexcept {
  static constexpr std::string_view kLetters = "\"\\/bfnrt";
  static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t start = offset();
  ++at_;
  if (*at_ != 'u') {
    const std::size_t letter = *at_ == '\0' ? kLetters.npos : kLetters.find(*at_);
    if (letter == kLetters.npos) return fail_here("an unknown escape in a string");
    ++at_;
    *write++ = kMeanings[letter];
    return true;
  }
  ++at_;
  char32_t scalar = 0;
  if (!hex4(scalar)) return false;
  if (scalar >= 0xD800 && scalar < 0xE000) {
    char32_t low = 0;
    if (scalar >= 0xDC00 || at_[0] != '\\' || at_[1] != 'u') {
      return fail(Errc::json_syntax, start, "a lone surrogate in a string");
    }
    at_ += 2;
    if (!hex4(low)) return false;
    if (low < 0xDC00 || low >= 0xE000) return fail(Errc::json_syntax, start, "a lone surrogate in a string");
    scalar = 0x10000 + ((scalar - 0xD800) << 10) + (low - 0xDC00);
  }
  write += base::encode_utf8(scalar, write);  // never more bytes than the escape has
  return true;
}

bool Reader::digits(Number& out, bool fraction) noexcept {
  if (!is_digit(*at_)) return fail_here("expected a digit");
  for (; is_digit(*at_); ++at_) {
    if (out.zero) {
      out.zero = *at_ == '0';
      if (fraction) --out.magnitude;
    } else if (!fraction) {
      ++out.magnitude;
    }
  }
  return true;
}

bool Reader::exponent(Number& out) noexcept {
  constexpr std::int64_t kSaturated = std::int64_t{1} << 50;  // more than any text has digits
  ++at_;
  const bool negative = *at_ == '-';
  if (negative || *at_ == '+') ++at_;
  if (!is_digit(*at_)) return fail_here("expected a digit");
  std::int64_t value = 0;
  for (; is_digit(*at_); ++at_) {
    if (value < kSaturated) value = value * 10 + (*at_ - '0');
  }
  out.magnitude += negative ? -value : value;
  return true;
}

// Checks the grammar of a number and measures it.
bool Reader::number(Number& out) noexcept {
  const char* start = at_;
  if (*at_ == '-') {
    out.digits_only = false;
    ++at_;
  }
  if (*at_ == '0' && is_digit(at_[1])) {
    ++at_;
    return fail_here("no digit may follow a leading 0");
  }
  if (!digits(out, false)) return false;
  if (*at_ == '.') {
    out.digits_only = false;
    ++at_;
    if (!digits(out, true)) return false;
  }
  if (*at_ == 'e' || *at_ == 'E') {
    out.digits_only = false;
    if (!exponent(out)) return false;
  }
  out.size = static_cast<std::size_t>(at_ - start);
  return true;
}

bool Reader::integer(std::uint64_t& out) noexcept {
  if (const char c = peek(); !is_digit(c) && c != '-') return fail_type("expected an integer");
  const std::size_t start = offset();
  Number parsed;
  if (!number(parsed)) return false;
  const char* text = begin_ + start;
  if (!parsed.digits_only || std::from_chars(text, text + parsed.size, out).ec != std::errc()) {
    return fail(Errc::json_integer, start, "expected an integer from 0 to 18446744073709551615 in digits only");
  }
  return true;
}

bool Reader::skip_number() noexcept {
  const std::size_t start = offset();
  Number parsed;
  if (!number(parsed)) return false;
  constexpr std::int64_t kLargest = 308;  // 1.797e308
  if (parsed.zero || parsed.magnitude < kLargest) return true;
  double value = 0;
  const char* text = begin_ + start;
  if (parsed.magnitude == kLargest && std::from_chars(text, text + parsed.size, value).ec == std::errc() &&
      std::isfinite(value)) {
    return true;
  }
  return fail(Errc::json_number, start, "a number is too large for a double");
}

bool Reader::skip_literal(std::string_view literal) noexcept {
  for (const char c : literal) {
    if (*at_ != c) return fail_here("expected a value");
    ++at_;
  }
  return true;
}

bool Reader::null() noexcept {
  if (peek() != 'n') return false;
  return skip_literal("null");
}

bool Reader::skip_scalar() noexcept {
  std::string_view ignored;
  switch (peek()) {
    case '"':
      return string(ignored);
    case 't':
      return skip_literal("true");
    case 'f':
      return skip_literal("false");
    case 'n':
      return skip_literal("null");
    default:
      return is_digit(*at_) || *at_ == '-' ? skip_number() : fail_here("expected a value");
  }
}

bool Reader::skip_value(unsigned open) noexcept {
  std::bitset<kMaxDepth + 1> is_object;  // by depth
  const unsigned around = open;
  std::string_view ignored;
  std::size_t start = 0;
  bool at_value = true;
  while (true) {
    if (at_value) {
      const char c = peek();
      if (c == '{' || c == '[') {
        if (open == kMaxDepth) return fail(Errc::json_depth, offset(), "more than 127 open containers");
        ++at_;
        is_object[++open] = c == '{';
        if (consume(c == '{' ? '}' : ']')) {
          --open;
        } else if (c == '[' || key(ignored, start)) {
          continue;
        } else {
          return false;
        }
      } else if (!skip_scalar()) {
        return false;
      }
    }
    if (open == around) return true;
    if (!next(is_object[open] ? '}' : ']', at_value)) return false;
    if (!at_value) {
      --open;
    } else if (is_object[open] && !key(ignored, start)) {
      return false;
    }
  }
}

bool Reader::end() noexcept {
  if (peek() == '\0' && at_ == end_) return ascii_ || check_utf8();
  return fail(Errc::json_syntax, offset(), "nothing but white space may follow the object");
}

}  // namespace safetensors::json
