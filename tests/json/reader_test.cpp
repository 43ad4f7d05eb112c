// The pull reader of JSON: escapes and invalid bytes at every offset, and numbers. The texts that it refuses, with
// offset and message, are in tests/data/cases.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "json/reader.h"

namespace {

using safetensors::Errc;
using safetensors::json::Reader;

// A reader of a text of its own. Behind the text, as the reader asks: a NUL, and bytes that mean something.
class Text {
 public:
  explicit Text(std::string_view text) : size_(text.size()), bytes_(text) {
    bytes_ += '\0';
    bytes_.append(Reader::kPadding, '"');
    reader_ = Reader(bytes_.data(), size_);
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  Reader* operator->() { return &reader_; }
  [[nodiscard]] std::string failure() const {
    const auto& failure = reader_.failure();
    return std::string(to_string(failure.code)) + " at " + std::to_string(failure.offset) + ": " + failure.what;
  }

 private:
  std::size_t size_;
  std::string bytes_;
  Reader reader_{nullptr, 0};
};

// The string that text is, or the failure.
std::string string_of(std::string_view text) {
  Text json(text);
  std::string_view value;
  if (!json->string(value)) return json.failure();
  std::string copy(value);
  return json->end() ? copy : json.failure();
}

// "ok", or the failure of reading text as a value that is ignored.
std::string skip(std::string_view text) {
  Text json(text);
  return json->skip_value(0) && json->end() ? "ok" : json.failure();
}

TEST(JsonPeek, SkipsFourWhiteSpaceCharacters) {
  Text json(" \t\r\n \r x");
  EXPECT_EQ(json->peek(), 'x');
  EXPECT_EQ(json->offset(), 7u);
  EXPECT_EQ(json->remaining(), 1u);
}

TEST(JsonPeek, SkipsNoOtherCharacter) {
  for (int c = 0; c < 256; ++c) {
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    const std::string text = {static_cast<char>(c), 'x'};
    Text json(text);
    EXPECT_EQ(json->peek(), static_cast<char>(c)) << c;
    EXPECT_EQ(json->offset(), 0u) << c;
  }
}

TEST(JsonPeek, GivesNulAtEnd) {
  EXPECT_EQ(Text("")->peek(), '\0');
  Text json("  ");
  EXPECT_EQ(json->peek(), '\0');
  EXPECT_EQ(json->remaining(), 0u);
}

TEST(JsonString, KeepsPlainText) {
  EXPECT_EQ(string_of("\"\""), "");
  EXPECT_EQ(string_of(" \"a b\" "), "a b");
  EXPECT_EQ(string_of("\"\x7f {}[]:,'\""), "\x7f {}[]:,'");
  EXPECT_EQ(string_of("\"gr\u00f6\u00dfe \u4e2d \U0001F600\""), "gr\u00f6\u00dfe \u4e2d \U0001F600");
}

TEST(JsonString, EndsAtQuoteAtAnyOffset) {
  for (std::size_t size = 0; size < 70; ++size) {
    const std::string value(size, 'x');
    EXPECT_EQ(string_of("\"" + value + "\""), value);
  }
}

TEST(JsonString, DecodesEscapeAtAnyOffset) {
  for (std::size_t before = 0; before < 40; ++before) {
    for (std::size_t after = 0; after < 20; ++after) {
      const std::string text = "\"" + std::string(before, 'x') + "\\n" + std::string(after, 'y') + "\\u0041\"";
      EXPECT_EQ(string_of(text), std::string(before, 'x') + "\n" + std::string(after, 'y') + "A");
    }
  }
}

TEST(JsonString, DecodesEachUnitButSurrogates) {
  for (unsigned unit = 0; unit <= 0xFFFF; ++unit) {
    char text[16];
    std::snprintf(text, sizeof text, "\"\\u%04x\"", unit);
    std::string expected;
    if (unit < 0x80) {
      expected = {static_cast<char>(unit)};
    } else if (unit < 0x800) {
      expected = {static_cast<char>(0xC0 + unit / 64), static_cast<char>(0x80 + unit % 64)};
    } else {
      expected = {static_cast<char>(0xE0 + unit / 4096), static_cast<char>(0x80 + unit / 64 % 64),
                  static_cast<char>(0x80 + unit % 64)};
    }
    if (unit >= 0xD800 && unit <= 0xDFFF) expected = "json_syntax at 1: a lone surrogate in a string";
    ASSERT_EQ(string_of(text), expected) << unit;
  }
}

TEST(JsonString, RefusesNeighboursOfHexDigits) {
  for (const char c : {'/', ':', '@', 'G', '`', 'g', '{'}) {
    EXPECT_EQ(string_of(std::string("\"\\u000") + c + "\""),
              "json_syntax at 6: expected four hexadecimal digits after \\u")
        << c;
  }
}

TEST(JsonString, RefusesNeighboursOfLowSurrogates) {
  for (const char* const text : {R"("x\ud800\udbff")", R"("x\ud800\ue000")", R"("x\udbff\ud800")"})
    EXPECT_EQ(string_of(text), "json_syntax at 2: a lone surrogate in a string") << text;
}

// The quotes behind the text do not close it.
TEST(JsonString, MustBeClosedWithinText) {
  for (std::size_t size = 0; size < 40; ++size) {
    EXPECT_EQ(string_of("\"" + std::string(size, 'x')),
              "json_syntax at " + std::to_string(size + 1) + ": a string is not closed");
  }
}

TEST(JsonPlainKey, RefusesSpacesAndEscapes) {
  std::string_view key;
  Text plain("\"a b\":1");
  ASSERT_TRUE(plain->plain_key(key));
  EXPECT_EQ(key, "a b");
  EXPECT_EQ(plain->offset(), 6u);
  for (const char* const other : {" \"a\":1", "\"a\" :1", "\"a\\u0062\":1", "\"a", "\"a\"", "a:", "1", "\"a\x01\":"}) {
    Text json(other);
    EXPECT_FALSE(json->plain_key(key)) << other;
    EXPECT_EQ(json->offset(), 0u) << other;
    EXPECT_EQ(json->failure().code, Errc::ok) << other;
  }
}

TEST(JsonSkip, AcceptsNumbersThatFitDouble) {
  const std::string zeros(400, '0');
  for (const std::string& good :
       {std::string("1e308"), std::string("1.7976931348623157e308"), std::string("1.7976931348623158e308"),
        std::string("-1.7976931348623157e+308"), std::string("1e-400"), std::string("1e-99999999999999999999"),
        std::string("0e999999999999999999999"), std::string("0.0e+99999"), std::string("-0.000e400"),
        "0." + zeros + "1e700", "0." + zeros + "1e401", "1" + zeros + "e-400", "1" + zeros + "e-92",
        "1" + zeros + "." + zeros + "e-100", "1" + std::string(308, '0')}) {
    EXPECT_EQ(skip(good), "ok") << good;
  }
}

TEST(JsonSkip, RefusesNumbersThatOverflowDouble) {
  const std::string zeros(400, '0');
  for (const std::string& bad :
       {std::string("1e309"), std::string("-1e309"), std::string("1.7976931348623159e308"),
        std::string("1.79769313486231597e308"), std::string("1E+400"), std::string("17976931348623159e292"),
        std::string("1e99999999999999999999999"), "1" + zeros, "0." + zeros + "1e711", "1" + zeros + "e-91",
        "1" + std::string(309, '0') + ".5"}) {
    EXPECT_EQ(skip(bad), "json_number at 0: a number is too large for a double") << bad;
  }
  EXPECT_EQ(skip("[1,1e999]"), "json_number at 3: a number is too large for a double");
}

TEST(JsonSkip, StopsBehindValue) {
  Text json("{\"a\":[1,{}],\"b\":2}");
  json->move_to(json->position() + 5);
  ASSERT_TRUE(json->skip_value(1));
  EXPECT_EQ(json->offset(), 11u);
  EXPECT_EQ(json->peek(), ',');
}

TEST(JsonUtf8, ReportsInvalidUtf8BeforeSyntax) {
  constexpr const char* kUtf8 = "invalid_utf8 at 6: this byte begins no valid sequence";
  EXPECT_EQ(skip("[1 2, \xff]"), kUtf8);     // behind an error of syntax
  EXPECT_EQ(skip("[1e999\xff"), kUtf8);      // behind a number that is too large
  EXPECT_EQ(skip("\"\\ud80\xff\""), kUtf8);  // in an escape
  EXPECT_EQ(skip("\"\\n\\t\\\xc0\x80\""), kUtf8);
  EXPECT_EQ(skip("[true \xed\xa0\x80]"), kUtf8);
  Text type("[     \x80");
  EXPECT_FALSE(type->open('{', "an object"));
  EXPECT_EQ(type.failure(), kUtf8);
}

TEST(JsonUtf8, RefusesInvalidUtf8InStrings) {
  for (const char* const bad : {"\x80", "\xc3", "\xc0\x80", "\xe4\xb8", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    for (std::size_t before = 0; before < 40; ++before) {
      const std::string text = "[\"" + std::string(before, 'x') + bad;
      const std::string refused =
          "invalid_utf8 at " + std::to_string(before + 2) + ": this byte begins no valid sequence";
      EXPECT_EQ(skip(text + "\"]"), refused);
      EXPECT_EQ(skip(text + "\\n\"]"), refused);  // an escape behind it changes the text
      EXPECT_EQ(skip(text), refused);             // cut
    }
  }
}

TEST(JsonUtf8, NamesOffsetInOriginalText) {
  EXPECT_EQ(skip("[\"\\n\xff\"]"), "invalid_utf8 at 4: this byte begins no valid sequence");
  EXPECT_EQ(skip("[\"\\u0041xy\", \"\\n\xc3\\n\xa9\"]"), "invalid_utf8 at 16: this byte begins no valid sequence");
}

TEST(JsonUtf8, ReportsFirstInvalidByte) {
  EXPECT_EQ(skip("[\"\u00e9\xff\", \"\xfe\"]"), "invalid_utf8 at 4: this byte begins no valid sequence");
}

TEST(JsonUtf8, IgnoresBytesBehindText) {
  std::string bytes = "\"a\"";
  bytes += '\0';
  bytes.append(Reader::kPadding, '\xff');
  Reader reader(bytes.data(), 3);
  std::string_view value;
  EXPECT_TRUE(reader.string(value));
  EXPECT_TRUE(reader.end());
  EXPECT_EQ(value, "a");
}

}  // namespace
