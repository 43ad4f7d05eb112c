// Asks printable() which characters are visible, so that the command and the library escape the same characters.
#include "text/escape.h"
#include "text/formatted.h"

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace safetensors::cli {
namespace {

void append_json_escape(std::string& out, std::uint32_t value) {
  if (value < 0x10000) {
    out += formatted("\\u{:04x}", value);
    return;
  }
  value -= 0x10000;
  out += formatted("\\u{:04x}\\u{:04x}", 0xD800 + (value >> 10), 0xDC00 + (value & 0x3FF));
}

// Appends the first character of text, which is not plain ASCII. Returns its size in bytes.
std::size_t append_character(std::string& out, std::string_view text, const char* not_utf8) {
  const std::size_t size = base::utf8_sequence_length(text);
  if (size == 0) {
    out += formatted("{}{:02x}", not_utf8, static_cast<unsigned char>(text[0]));
    return 1;
  }
  const std::string_view character = text.substr(0, size);
  if (printable(character) == character) {
    out += character;
  } else {
    append_json_escape(out, base::decode_utf8(character));
  }
  return size;
}

bool plain(char c) {
  return c >= 0x20 && c < 0x7F;
}

}  // namespace

std::string json_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char c = text[0];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (plain(c)) {
      out += c;
    } else {
      text.remove_prefix(append_character(out, text, "\\\\x"));
      continue;
    }
    text.remove_prefix(1);
  }
  return out;
}

std::string visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (plain(text[0]) || text[0] == '\n' || text[0] == '\t') {
      out += text[0];
      text.remove_prefix(1);
    } else {
      text.remove_prefix(append_character(out, text, "\\x"));
    }
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return printable(text);
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return printable(text.substr(0, end)) + "...";
}

}  // namespace safetensors::cli
