// Asks printable() which characters are visible, so that the command and the library escape the same characters.
#include "text/text.h"

#include <safetensors/error.h>

#include "base/utf8.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace safetensors::cli {
namespace {

// Both ends are included.
struct CharacterRange {
  char32_t first, last;
};

// The characters of common scripts that take no column, because they join the one before them, and those that take two.
// A name in a rare script may shift its row of a table.
constexpr CharacterRange kNoColumn[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},
                                        {0x64B, 0x65F},   {0x1160, 0x11FF}, {0x3099, 0x309A}, {0x1AB0, 0x1AFF},
                                        {0x1DC0, 0x1DFF}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};
constexpr CharacterRange kTwoColumns[] = {{0x1100, 0x115F},  {0x2705, 0x2705}, {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                                          {0xA960, 0xA97C},  {0xAC00, 0xD7A3}, {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},  {0xFFE0, 0xFFE6}, {0x1F300, 0x1F6FF}, {0x1F900, 0x1FAFF},
                                          {0x20000, 0x3FFFD}};

// An escape of JSON: one or two units of UTF-16.
std::string json_escape(std::uint32_t value) {
  if (value < 0x10000) return formatted("\\u{:04x}", value);
  return formatted("\\u{:04x}\\u{:04x}", 0xD800 + ((value - 0x10000) >> 10), 0xDC00 + (value & 0x3FF));
}

// in_string: for the content of a JSON string, in which " and \\ and line feeds are escaped, too.
std::string escaped(std::string_view text, bool in_string) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view one = first_character(text);
    const char c = one[0];
    const bool white = c == '\n' || c == '\t';
    if (in_string && (c == '"' || c == '\\')) {
      (out += '\\') += c;
    } else if (in_string && white) {
      out += c == '\n' ? "\\n" : "\\t";
    } else if (white || (c >= 0x20 && c < 0x7F)) {
      out += c;
    } else if (base::utf8_sequence_length(one) == 0) {
      out += formatted("{}{:02x}", in_string ? "\\\\x" : "\\x", static_cast<unsigned char>(c));
    } else {
      out += printable(one) == one ? std::string(one) : json_escape(base::decode_utf8(one));
    }
    text.remove_prefix(one.size());
  }
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes the number at the start of text and returns its digits without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t zeros = 0;
  while (zeros < text.size() && text[zeros] == '0') ++zeros;
  std::size_t end = zeros;
  while (end < text.size() && is_digit(text[end])) ++end;
  const std::string_view digits = text.substr(zeros, end - zeros);
  text.remove_prefix(end);
  return digits;
}

bool contains(std::span<const CharacterRange> ranges, char32_t value) {
  return std::ranges::any_of(ranges,
                             [&](const CharacterRange& range) { return range.first <= value && value <= range.last; });
}

}  // namespace

std::optional<std::string_view> take_line(std::string_view& rest) {
  if (rest.empty()) return std::nullopt;
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool has_only_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(base::utf8_sequence_length(text), 1));
}

std::string json_escaped(std::string_view text) {
  return escaped(text, true);
}

std::string visible(std::string_view text) {
  return escaped(text, false);
}

std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return printable(text);
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return printable(text.substr(0, end)) + "...";
}

// Adds the missing B of a unit.
std::optional<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view number = text.substr(0, text.find_last_not_of("KMGTkmgti") + 1);
  const std::string_view unit = text.substr(number.size());
  const bool without_b = unit.size() == 1 ? unit != "i" : unit.size() == 2 && unit[0] != 'i' && unit[1] == 'i';
  return base::parse_size(without_b ? std::string(text) + "B" : std::string(text));
}

std::string grouped(std::uint64_t number) {
  std::string text = formatted("{}", number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string counted(std::uint64_t number, const char* noun) {
  return formatted("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "0.0 %";
  return formatted("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// Compares two numbers without converting them: without leading zeros the longer one is larger, and numbers of the same
// length compare like text.
bool natural_less(std::string_view a, std::string_view b) noexcept {
  const std::string_view all_a = a;
  const std::string_view all_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const std::string_view x = take_number(a);
      const std::string_view y = take_number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (const int order = x.compare(y); order != 0) return order < 0;
      continue;
    }
    if (a[0] != b[0]) return static_cast<unsigned char>(a[0]) < static_cast<unsigned char>(b[0]);
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() != b.empty()) return a.empty();
  return all_a < all_b;
}

std::string wrap_words(std::string_view text, std::size_t columns, std::size_t indent) {
  if (columns <= indent) return std::string(text);
  std::string lines;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::size_t width = display_width(text.substr(0, end));
    if (used > indent && width > 0 && used + width > columns) {
      lines.erase(lines.find_last_not_of(' ') + 1);
      lines.append("\n").append(indent, ' ');
      used = indent;
    }
    const std::string_view word = text.substr(0, end + 1);  // with the space or line feed behind it
    lines += word;
    used = word.ends_with('\n') ? 0 : used + width + (word.size() - end);
    text.remove_prefix(word.size());
  }
  return lines;
}

// wcwidth() of the C library is no choice: it depends on the locale, which the command does not read. Sequences with
// invisible joiners do not occur, because printable() escapes these characters.
std::size_t display_width(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return text.size();
  std::size_t columns = 0;
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    const char32_t value = character.size() > 1 ? base::decode_utf8(character) : U' ';
    columns += contains(kNoColumn, value) ? 0 : contains(kTwoColumns, value) ? 2 : 1;
    text.remove_prefix(character.size());
  }
  return columns;
}

}  // namespace safetensors::cli
