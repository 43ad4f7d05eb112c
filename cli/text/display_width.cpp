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

}  // namespace safetensors::cli
