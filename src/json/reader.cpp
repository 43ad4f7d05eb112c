// Reads JSON by recursive descent without recursion: the caller pulls one token after the other, and copy_value() keeps
// its own stack of 127 bits. So hostile nesting cannot exhaust the stack.
//
// Strings are unescaped in place and returned as views: a header needs no memory beyond its text. Strings make up much
// of a header, so the scan for the end of a string takes 16 bytes per step.
#include "json/reader.h"

#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "json/copy.h"

namespace safetensors::json {
namespace {

constexpr std::size_t kBytesPerCheck = std::size_t{64} << 10;  // between two checks for cancellation

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// The smallest number that rounds to infinity: the largest double and half of its last place, 2^1024 - 2^970.
constexpr std::string_view kTooLarge =
    "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070"
    "9633028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447"
    "5730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904"
    "174497792";

// Returns whether a double can hold a number from 1e308 to below 1e309: compares its digits with those of kTooLarge.
// std::from_chars() for doubles is missing in libc++ before 20.
bool fits_in_double(std::string_view number) noexcept {
  std::size_t next = 0;  // index in kTooLarge
  for (const char c : number.substr(0, number.find_first_of("eE"))) {
    if (!is_digit(c) || (next == 0 && c == '0')) continue;
    if (next == kTooLarge.size()) return false;
    if (c != kTooLarge[next]) return c < kTooLarge[next];
    ++next;
  }
  return kTooLarge.find_first_not_of('0', next) != std::string_view::npos;
}

}  // namespace

// Checks the whole text once. It must run before the first escape changes the text, because an offset in the failure
// refers to the original text.
bool Reader::check_utf8() noexcept {
  if (checked_) return true;
  checked_ = true;
  const std::size_t offset = base::first_invalid_utf8({begin_, static_cast<std::size_t>(end_ - begin_)});
  return offset == std::string_view::npos || fail(Errc::invalid_utf8, offset, "this byte begins no valid sequence");
}

// Invalid UTF-8 takes precedence over every other failure. The recursion with check_utf8() ends after one round,
// because checked_ is set first.
bool Reader::fail(Errc code, std::size_t offset, const char* what) noexcept {
  if (!check_utf8()) return false;
  failure_ = {code, offset, what};
  return false;
}

// Sets failure_ without fail(): a cancelled call does not wait for the UTF-8 check of a large text.
bool Reader::check_cancelled() noexcept {
  next_check_ = remaining() > kBytesPerCheck ? offset() + kBytesPerCheck : kNever;
  if (!cancellation_->requested()) return true;
  failure_ = {Errc::cancelled, offset(), base::kOpeningCancelled};
  return false;
}

void Reader::skip_space() noexcept {
  while (*position_ == ' ' || *position_ == '\n' || *position_ == '\t' || *position_ == '\r') ++position_;
}

bool Reader::fail_here(const char* what) noexcept {
  return fail(Errc::json_syntax, offset(), position_ == end_ ? "the text ends too early" : what);
}

bool Reader::fail_type(const char* what) noexcept {
  const char c = peek();
  const std::string_view rest(position_, remaining());
  const bool value = c == '{' || c == '[' || c == '"' || is_digit(c) || (c == '-' && is_digit(position_[1])) ||
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
  char* start = ++position_;
  position_ = scan_string(position_);
  if (*position_ != '"') return unescape(position_, out, start);
  out = {start, static_cast<std::size_t>(position_++ - start)};
  return true;
}

// The slow part of string(): position_ points to a byte that is not the closing quote. Unescaped text is never longer
// than its escapes, so `write` never overtakes position_.
bool Reader::unescape(char* write, std::string_view& out, char* start) noexcept {
  if (!check_utf8()) return false;
  while (true) {
    if (*position_ == '"') break;
    if (*position_ != '\\') {
      return position_ == end_ ? fail(Errc::json_syntax, offset(), "a string is not closed")
                               : fail_here("a control character in a string must be escaped");
    }
    if (!go_on() || !escape(write)) return false;
    char* stop = scan_string(position_);
    const auto size = static_cast<std::size_t>(stop - position_);
    std::memmove(write, position_, size);
    write += size;
    position_ = stop;
  }
  ++position_;
  out = {start, static_cast<std::size_t>(write - start)};
  return true;
}

bool Reader::hex4(char32_t& out) noexcept {
  out = 0;
  for (int i = 0; i < 4; ++i, ++position_) {
    const char c = *position_;
    const int letter = (c | 0x20) - 'a';
    if (!is_digit(c) && (letter < 0 || letter > 5)) return fail_here("expected four hexadecimal digits after \\u");
    out = out << 4 | static_cast<char32_t>(is_digit(c) ? c - '0' : letter + 10);
  }
  return true;
}

// Reads one escape; position_ points to its backslash. Characters beyond U+FFFF are two escapes, a surrogate pair.
bool Reader::escape(char*& write) noexcept {
  static constexpr std::string_view kLetters = "\"\\/bfnrt";
  static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t start = offset();
  ++position_;
  if (*position_ != 'u') {
    const std::size_t letter = *position_ == '\0' ? kLetters.npos : kLetters.find(*position_);
    if (letter == kLetters.npos) return fail_here("an unknown escape in a string");
    ++position_;
    *write++ = kMeanings[letter];
    return true;
  }
  ++position_;
  char32_t scalar = 0;
  if (!hex4(scalar)) return false;
  if (scalar >= 0xD800 && scalar < 0xE000) {
    char32_t low = 0;
    if (scalar >= 0xDC00 || position_[0] != '\\' || position_[1] != 'u') {
      return fail(Errc::json_syntax, start, "a lone surrogate in a string");
    }
    position_ += 2;
    if (!hex4(low)) return false;
    if (low < 0xDC00 || low >= 0xE000) return fail(Errc::json_syntax, start, "a lone surrogate in a string");
    scalar = 0x10000 + ((scalar - 0xD800) << 10) + (low - 0xDC00);
  }
  write += base::encode_utf8(scalar, write);  // at most 3 bytes for 6 bytes of text, or 4 bytes for 12
  return true;
}

// Reads digits and tracks the power of ten of the first digit that is not 0. In the integer part, every further digit
// raises the power. In the fraction, every leading zero lowers it.
bool Reader::digits(Number& out, bool fraction) noexcept {
  if (!is_digit(*position_)) return fail_here("expected a digit");
  for (; is_digit(*position_); ++position_) {
    if (out.zero) {
      out.zero = *position_ == '0';
      if (fraction) --out.magnitude;
    } else if (!fraction) {
      ++out.magnitude;
    }
  }
  return true;
}

bool Reader::exponent(Number& out) noexcept {
  // Saturate instead of overflow. 2^50 is more than the number of digits of any text, so digits cannot compensate for
  // it.
  constexpr std::int64_t kSaturated = std::int64_t{1} << 50;
  ++position_;
  const bool negative = *position_ == '-';
  if (negative || *position_ == '+') ++position_;
  if (!is_digit(*position_)) return fail_here("expected a digit");
  std::int64_t value = 0;
  for (; is_digit(*position_); ++position_) {
    if (value < kSaturated) value = value * 10 + (*position_ - '0');
  }
  out.magnitude += negative ? -value : value;
  return true;
}

// Checks the grammar of a number and measures it, without conversion: most numbers are skipped or are short integers.
bool Reader::number(Number& out) noexcept {
  const char* start = position_;
  if (*position_ == '-') {
    out.digits_only = false;
    ++position_;
  }
  if (*position_ == '0' && is_digit(position_[1])) {
    ++position_;
    return fail_here("no digit may follow a leading 0");
  }
  if (!digits(out, false)) return false;
  if (*position_ == '.') {
    out.digits_only = false;
    ++position_;
    if (!digits(out, true)) return false;
  }
  if (*position_ == 'e' || *position_ == 'E') {
    out.digits_only = false;
    if (!exponent(out)) return false;
  }
  out.size = static_cast<std::size_t>(position_ - start);
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

// Refuses numbers that a double cannot hold, as serde_json does. Only a number from 1e308 to below 1e309 needs a
// comparison of digits: 1.7e308 fits, 1.8e308 does not.
bool Reader::skip_number() noexcept {
  const std::size_t start = offset();
  Number parsed;
  if (!number(parsed)) return false;
  constexpr std::int64_t kMaxMagnitude = 308;  // the largest double is 1.797e308
  if (parsed.zero || parsed.magnitude < kMaxMagnitude) return true;
  if (parsed.magnitude == kMaxMagnitude && fits_in_double({begin_ + start, parsed.size})) return true;
  return fail(Errc::json_number, start, "a number is too large for a double");
}

bool Reader::skip_literal(std::string_view literal) noexcept {
  for (const char c : literal) {
    if (*position_ != c) return fail_here("expected a value");
    ++position_;
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
      return is_digit(*position_) || *position_ == '-' ? skip_number() : fail_here("expected a value");
  }
}

bool Reader::skip_value(unsigned open) noexcept {
  return copy_value(*this, open, nullptr);
}

bool Reader::end() noexcept {
  // A NUL before the end of the text is a byte of the text.
  if (peek() == '\0' && position_ == end_) return ascii_ || check_utf8();
  return fail(Errc::json_syntax, offset(), "nothing but white space may follow the object");
}

}  // namespace safetensors::json
