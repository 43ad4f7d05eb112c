// Writes JSON strings and integers in the style of the format's own writer (serde_json), byte for byte.
//
// append_string() copies the text between two escapes at once: names rarely hold any escape.
#include "json/writer.h"

#include <charconv>

namespace safetensors::json {
namespace {

// Returns the letter after the backslash, 'u' for \u00xx, or 0 if the byte needs no escape.
char escape_of(char byte) noexcept {
  switch (byte) {
    case '"':
    case '\\':
      return byte;
    case '\b':
      return 'b';
    case '\t':
      return 't';
    case '\n':
      return 'n';
    case '\f':
      return 'f';
    case '\r':
      return 'r';
    default:
      return static_cast<unsigned char>(byte) < 0x20 ? 'u' : '\0';
  }
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // start of the text that is not appended yet
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char escape = escape_of(text[i]);
    if (escape == '\0') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    out += '\\';
    out += escape;
    if (escape == 'u') {
      out += text[i] >= 0x10 ? "001" : "000";
      out += "0123456789abcdef"[text[i] & 0xF];
    }
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

std::uint64_t string_size(std::string_view text) noexcept {
  std::uint64_t size = text.size() + 2;
  for (const char byte : text) {
    const char escape = escape_of(byte);
    if (escape != '\0') size += escape == 'u' ? 5 : 1;
  }
  return size;
}

void append_integer(std::string& out, std::uint64_t value) {
  char digits[20];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  (void)error;  // 20 digits are enough for 2^64-1
  out.append(digits, end);
}

}  // namespace safetensors::json
