// Validates UTF-8 with table 3-7 of the Unicode standard ("Well-Formed UTF-8 Byte Sequences"), and encodes single
// scalar values.
//
// Headers are almost always ASCII. So validation first tests 32 bytes at a time for ASCII. It checks each sequence only
// in 32 bytes that fail this test, and at the end of the text.
#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace safetensors::base {
namespace {

// Returns the number of leading ASCII bytes, rounded down to a multiple of 32.
std::size_t skip_ascii(std::string_view text) noexcept {
  std::size_t i = 0;
  for (; text.size() - i >= 32; i += 32) {
    std::uint64_t words[4];
    std::memcpy(words, text.data() + i, 32);
    if ((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u) break;
  }
  return i;
}

bool is_continuation(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::size_t utf8_sequence_length(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  // Bytes 0x80 to 0xBF are continuation bytes. 0xC0 and 0xC1 begin only overlong forms. Bytes from 0xF5 on begin no
  // sequence of a code point up to U+10FFFF.
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  if (lead == 0xE0 && second < 0xA0) return 0;  // overlong
  if (lead == 0xED && second > 0x9F) return 0;  // surrogate
  if (lead == 0xF0 && second < 0x90) return 0;  // overlong
  if (lead == 0xF4 && second > 0x8F) return 0;  // above U+10FFFF
  return length;
}

std::size_t first_invalid_utf8(std::string_view text) noexcept {
  std::size_t i = 0;
  while (true) {
    i += skip_ascii(text.substr(i));
    // Check the sequences of the 32 bytes that are not all ASCII, or of the rest of the text. The last of these
    // sequences may end after `stop`.
    for (const std::size_t stop = i + 32; i < stop;) {
      if (i >= text.size()) return std::string_view::npos;
      const std::size_t length = utf8_sequence_length(text.substr(i));
      if (length == 0) return i;
      i += length;
    }
  }
}

char32_t decode_utf8(std::string_view sequence) noexcept {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  char32_t scalar = lead & (0x7Fu >> sequence.size());
  for (const char byte : sequence.substr(1)) scalar = scalar << 6 | (static_cast<unsigned char>(byte) & 0x3F);
  return scalar;
}

std::size_t encode_utf8(char32_t scalar, char* out) noexcept {
  const auto put = [&out](char32_t bits) { *out++ = static_cast<char>(static_cast<unsigned char>(bits)); };
  if (scalar < 0x80) return put(scalar), 1;
  if (scalar < 0x800) return put(0xC0 | scalar >> 6), put(0x80 | (scalar & 0x3F)), 2;
  if (scalar < 0x10000) {
    return put(0xE0 | scalar >> 12), put(0x80 | (scalar >> 6 & 0x3F)), put(0x80 | (scalar & 0x3F)), 3;
  }
  put(0xF0 | scalar >> 18), put(0x80 | (scalar >> 12 & 0x3F));
  return put(0x80 | (scalar >> 6 & 0x3F)), put(0x80 | (scalar & 0x3F)), 4;
}

}  // namespace safetensors::base
