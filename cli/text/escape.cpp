// Decodes UTF-8 strictly and asks printable() which characters are visible, so that the command and the library escape
// the same characters.
#include "text/escape.h"
#include "text/formatted.h"

#include <safetensors/error.h>

#include <cstdint>

namespace safetensors::cli {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t size = 0;  // in bytes; 0: not UTF-8
};

CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return {};
  std::uint32_t value = first & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  constexpr std::uint32_t kMin[] = {0, 0, 0x80, 0x800, 0x10000};  // by size: below it, the encoding is overlong
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (value < kMin[size] || value > 0x10FFFF || surrogate) return {};
  return {value, size};
}

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
  const CodePoint code = decode(text);
  if (code.size == 0) {
    out += formatted("{}{:02x}", not_utf8, static_cast<unsigned char>(text[0]));
    return 1;
  }
  const std::string_view character = text.substr(0, code.size);
  if (printable(character) == character) {
    out += character;
  } else {
    append_json_escape(out, code.value);
  }
  return code.size;
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

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint code = decode(text);
    if (code.size == 0) return false;
    text.remove_prefix(code.size);
  }
  return true;
}

std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return printable(text);
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return printable(text.substr(0, end)) + "...";
}

}  // namespace safetensors::cli
