// UTF-8: every sequence of up to three bytes, and sequences of four bytes at the limits of the valid ranges, against a
// decoder that follows the Unicode Standard's table of scalar values. Examples are in tests/data/cases/rule_4_utf8.txt.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace {

using safetensors::base::encode_utf8;
using safetensors::base::first_invalid_utf8;
using safetensors::base::utf8_sequence_length;

constexpr std::size_t kNone = std::string_view::npos;

unsigned byte(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
}

// The length of the first sequence by its value: decoded in the plain way, then asked whether this is the one right
// form of a scalar value.
std::size_t naive_length(std::string_view text) {
  const unsigned lead = byte(text, 0);
  std::size_t length = 0;
  std::uint32_t value = 0;
  if (lead < 0x80) return 1;
  if ((lead & 0xE0) == 0xC0) length = 2, value = lead & 0x1F;
  if ((lead & 0xF0) == 0xE0) length = 3, value = lead & 0x0F;
  if ((lead & 0xF8) == 0xF0) length = 4, value = lead & 0x07;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(text, i) & 0xC0) != 0x80) return 0;
    value = value << 6 | (byte(text, i) & 0x3F);
  }
  const std::uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  const bool scalar = value < 0xD800 || (value > 0xDFFF && value <= 0x10FFFF);
  return scalar && value >= least ? length : 0;
}

std::size_t naive_first_invalid(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = naive_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return kNone;
}

std::string encoded(char32_t scalar) {
  char bytes[4];
  return {bytes, encode_utf8(scalar, bytes)};
}

TEST(Utf8, EncodesAndAcceptsEveryScalarValue) {
  for (std::uint32_t scalar = 0; scalar <= 0x10FFFF; ++scalar) {
    if (scalar >= 0xD800 && scalar <= 0xDFFF) continue;
    const std::string text = encoded(scalar);
    ASSERT_EQ(text.size(), scalar < 0x80 ? 1u : scalar < 0x800 ? 2u : scalar < 0x10000 ? 3u : 4u) << scalar;
    ASSERT_EQ(naive_length(text), text.size()) << scalar;
    ASSERT_EQ(utf8_sequence_length(text), text.size()) << scalar;
    ASSERT_EQ(first_invalid_utf8(text), kNone) << scalar;
  }
}

TEST(Utf8, EncodesLimitsOfEachLength) {
  EXPECT_EQ(encoded(0), std::string("\0", 1));
  EXPECT_EQ(encoded(0x7F), "\x7f");
  EXPECT_EQ(encoded(0x80), "\xc2\x80");
  EXPECT_EQ(encoded(0x7FF), "\xdf\xbf");
  EXPECT_EQ(encoded(0x800), "\xe0\xa0\x80");
  EXPECT_EQ(encoded(0xD7FF), "\xed\x9f\xbf");
  EXPECT_EQ(encoded(0xE000), "\xee\x80\x80");
  EXPECT_EQ(encoded(0xFFFF), "\xef\xbf\xbf");
  EXPECT_EQ(encoded(0x10000), "\xf0\x90\x80\x80");
  EXPECT_EQ(encoded(0x10FFFF), "\xf4\x8f\xbf\xbf");
}

TEST(Utf8, JudgesEverySequenceUpTo3Bytes) {
  for (unsigned a = 0; a < 256; ++a) {
    const std::string one = {static_cast<char>(a)};
    ASSERT_EQ(first_invalid_utf8(one), naive_first_invalid(one)) << a;
    ASSERT_EQ(utf8_sequence_length(one), naive_length(one)) << a;
    std::string two = one + '\0';
    std::string three = two + '\0';
    for (unsigned b = 0; b < 256; ++b) {
      two[1] = three[1] = static_cast<char>(b);
      ASSERT_EQ(first_invalid_utf8(two), naive_first_invalid(two)) << a << ' ' << b;
      ASSERT_EQ(utf8_sequence_length(two), naive_length(two)) << a << ' ' << b;
      for (unsigned c = 0; c < 256; ++c) {
        three[2] = static_cast<char>(c);
        if (first_invalid_utf8(three) != naive_first_invalid(three) ||
            utf8_sequence_length(three) != naive_length(three)) {
          FAIL() << a << ' ' << b << ' ' << c;
        }
      }
    }
  }
}

TEST(Utf8, JudgesSequencesOf4BytesAtLimits) {
  constexpr unsigned kBorders[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF};
  for (unsigned a = 0xE0; a < 256; ++a) {
    for (const unsigned b : kBorders) {
      for (const unsigned c : kBorders) {
        for (const unsigned d : kBorders) {
          const std::string four = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c),
                                    static_cast<char>(d)};
          ASSERT_EQ(first_invalid_utf8(four), naive_first_invalid(four)) << a << ' ' << b << ' ' << c << ' ' << d;
          ASSERT_EQ(utf8_sequence_length(four), naive_length(four)) << a << ' ' << b << ' ' << c << ' ' << d;
        }
      }
    }
  }
}

// The fast way over ASCII goes by blocks: a sequence may stand anywhere in one and across two.
TEST(Utf8, FindsExactOffsetInLongText) {
  for (std::size_t before = 0; before < 100; ++before) {
    for (const std::size_t after : {0u, 1u, 2u, 3u, 31u, 32u, 33u, 70u}) {
      for (const char* const part : {"\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "\x80", "\xc3", "\xe4\xb8",
                                     "\xf0\x9f\x98", "\xed\xa0\x80", "\xff"}) {
        const std::string text = std::string(before, 'x') + part + std::string(after, 'y') + part;
        ASSERT_EQ(first_invalid_utf8(text), naive_first_invalid(text)) << before << ' ' << after;
      }
    }
  }
}

}  // namespace
