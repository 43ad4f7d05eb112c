// Looks each character up in tables of ranges from the Unicode Character Database. wcwidth() of the C library is no
// choice: it depends on the locale, which the command does not read. Sequences with invisible joiners do not occur,
// because printable() escapes these characters.
#include "text/display_width.h"

#include "text/character_widths.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/utf8.h"

namespace safetensors::cli {
namespace {

struct Character {
  std::size_t bytes;
  std::size_t columns;
};

bool contains(std::span<const CharacterRange> ranges, char32_t value) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), value,
                                      [](char32_t code, const CharacterRange& range) { return code < range.first; });
  return after != ranges.begin() && value <= std::prev(after)->last;
}

// The first character of text, which is not empty.
Character first_character(std::string_view text) {
  const std::size_t size = base::utf8_sequence_length(text);
  if (size <= 1) return {1, 1};
  const char32_t value = base::decode_utf8(text.substr(0, size));
  if (contains(kNoColumn, value)) return {size, 0};
  return {size, contains(kTwoColumns, value) ? std::size_t{2} : std::size_t{1}};
}

// The last character of text, which is not empty.
Character last_character(std::string_view text) {
  std::size_t size = 1;
  while (size < 4 && size < text.size() && (static_cast<unsigned char>(text[text.size() - size]) & 0xC0) == 0x80)
    ++size;
  const Character character = first_character(text.substr(text.size() - size));
  return character.bytes == size ? character : Character{1, 1};
}

}  // namespace

std::size_t display_width(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return text.size();
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    columns += character.columns;
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string fit_width(std::string_view text, std::size_t columns) {
  constexpr std::string_view kEllipsis = "\u2026";
  if (display_width(text) <= columns) return std::string(text);
  std::size_t remaining = columns - 1;  // without the ellipsis

  std::string_view rest = text;
  std::size_t head_remaining = remaining - remaining / 2;
  for (Character next{}; !rest.empty(); rest.remove_prefix(next.bytes)) {
    next = first_character(rest);
    if (next.columns > head_remaining) break;
    head_remaining -= next.columns;
    remaining -= next.columns;
  }
  const std::size_t head = text.size() - rest.size();

  std::size_t tail = 0;  // in bytes; a combining character counts only if its base character fits
  for (std::size_t joined = 0; !rest.empty();) {
    const Character last = last_character(rest);
    if (last.columns > remaining) break;
    remaining -= last.columns;
    joined += last.bytes;
    if (last.columns != 0) tail = joined;
    rest.remove_suffix(last.bytes);
  }
  return std::string(text.substr(0, head)).append(kEllipsis).append(text.substr(text.size() - tail));
}

}  // namespace safetensors::cli
