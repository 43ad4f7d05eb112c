// Escapes the characters that a terminal does not show, and those that change how the text around them is shown. So a
// name from a hostile file cannot hide or rearrange the text of a message.
#include "base/printable.h"

#include <cstdio>

#include "base/error.h"
#include "base/utf8.h"

namespace safetensors {
inline namespace v0 {
namespace {

struct Range {
  char32_t first, last;
};

// Invisible characters, and characters that change how the text around them is shown. Source: Unicode 15, the
// categories Cc, Cf, Zl and Zp, and the fillers and selectors that are drawn as nothing. Sorted.
constexpr Range kInvisible[] = {{0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},
                                {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},
                                {0x890, 0x891},     {0x8E2, 0x8E2},     {0x115F, 0x1160},   {0x17B4, 0x17B5},
                                {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},
                                {0x2800, 0x2800},   {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
                                {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD},
                                {0x13430, 0x1345F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};

bool invisible(char32_t scalar) noexcept {
  for (const Range& range : kInvisible) {
    if (scalar < range.first) return false;
    if (scalar <= range.last) return true;
  }
  return false;
}

void append_hex(std::string& out, const char* format, unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  out += text;
}

}  // namespace
}  // namespace v0

namespace base {

bool has_invisible(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = base::utf8_sequence_length(text);
    if (length != 0 && invisible(base::decode_utf8(text.substr(0, length)))) return true;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return false;
}

std::string shown_name(std::string_view text, std::size_t limit) {
  return concat({"`", printable(text.substr(0, limit)), (text.size() > limit ? "...`" : "`")});
}

std::string tensor_named(std::string_view name) {
  return concat({"tensor `", printable(name), "`"});
}

Status check_utf8(const char* what, std::string_view name, std::string_view text) {
  constexpr std::size_t kMaxShown = 200;  // bytes of the name
  const std::size_t index = base::first_invalid_utf8(text);
  if (index == std::string_view::npos) return {};
  return base::make_error(Errc::invalid_utf8,
                          {what, " `", printable(name.substr(0, kMaxShown)), "` is not valid UTF-8 at byte ", index});
}

}  // namespace base

inline namespace v0 {

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = base::utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, length);
    if (length == 0) {
      append_hex(out, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (const char32_t scalar = base::decode_utf8(sequence); scalar == '\\') {
      out += "\\\\";  // doubled, so that a name cannot contain text that looks like an escape
    } else if (invisible(scalar)) {
      append_hex(out, "\\u{%x}", static_cast<unsigned>(scalar));
    } else {
      out += sequence;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace v0
}  // namespace safetensors
