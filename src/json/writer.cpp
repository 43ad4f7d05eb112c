// Writes JSON strings in the style of the format's own writer (serde_json), or of Python's json.dumps(),
// byte for byte.
//
// append_string() copies the text between two escapes at once: names rarely hold any escape.
#include "json/writer.h"

#include <algorithm>
#include <cstddef>

#include "base/utf8.h"

namespace safetensors::json {
namespace {

// Returns the letter after the backslash, 'u' for \u00xx, or 0 if the byte needs no escape.
char escape_of(char byte) noexcept {
  constexpr std::string_view kShort = "\b\t\n\f\r";
  if (byte == '"' || byte == '\\') return byte;
  if (static_cast<unsigned char>(byte) >= 0x20) return '\0';
  const std::size_t index = kShort.find(byte);
  return index == kShort.npos ? 'u' : "btnfr"[index];
}

void append_escape(std::string& out, char16_t unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[unit >> shift & 0xF];
}

// In UTF-16. A scalar above U+FFFF needs two units, the surrogates.
void append_escapes(std::string& out, char32_t scalar) {
  if (scalar < 0x10000) return append_escape(out, static_cast<char16_t>(scalar));
  scalar -= 0x10000;
  append_escape(out, static_cast<char16_t>(0xD800 | scalar >> 10));
  append_escape(out, static_cast<char16_t>(0xDC00 | (scalar & 0x3FF)));
}

}  // namespace

void append_ascii_string(std::string& out, std::string_view text) {
  const std::size_t begin = out.size();
  append_string(out, text);
  const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x7F; };  // DEL is escaped, too
  if (std::all_of(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), is_ascii)) return;
  const std::string escaped = out.substr(begin);
  out.resize(begin);
  for (std::string_view rest = escaped; !rest.empty();) {
    const std::size_t length = std::max<std::size_t>(base::utf8_sequence_length(rest), 1);
    if (length == 1 && rest[0] != '\x7f')
      out += rest[0];
    else
      append_escapes(out, base::decode_utf8(rest.substr(0, length)));
    rest.remove_prefix(length);
  }
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // start of the text that is not appended yet
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char escape = escape_of(text[i]);
    if (escape == '\0') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    if (escape == 'u')
      append_escape(out, static_cast<char16_t>(text[i]));
    else
      out.append({'\\', escape});
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

}  // namespace safetensors::json
