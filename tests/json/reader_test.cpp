// The pull reader of JSON: every escape and byte at every offset, and its steps. The texts that it refuses are in
// tests/data/cases.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

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

TEST(JsonConsume, TakesOnlyRequestedCharacter) {
  Text json(" :,");
  EXPECT_FALSE(json->consume(','));
  EXPECT_TRUE(json->consume(':'));
  EXPECT_EQ(json->offset(), 2u);
  EXPECT_TRUE(json->consume(','));
  EXPECT_FALSE(json->consume(','));
  EXPECT_EQ(json->failure().code, Errc::ok);
}

TEST(JsonMoveTo, ContinuesAtNewPosition) {
  Text json("abc1");
  json->move_to(json->position() + 3);
  std::uint64_t value = 0;
  EXPECT_TRUE(json->integer(value));
  EXPECT_EQ(value, 1u);
  EXPECT_EQ(json->offset(), 4u);
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

TEST(JsonString, RefusesOtherLetterEscapes) {
  constexpr std::string_view kKnown = "\"\\/bfnrtu";
  for (int c = 0; c < 128; ++c) {
    const char letter = static_cast<char>(c);
    if (kKnown.find(letter) != kKnown.npos) continue;
    const std::string text = std::string("\"ab\\") + letter + "\"";
    EXPECT_EQ(string_of(text), "json_syntax at 4: an unknown escape in a string") << c;
  }
  EXPECT_EQ(string_of("\"\\\u00e9\""), "json_syntax at 2: an unknown escape in a string");
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

TEST(JsonString, RefusesFewerThanFourHexDigits) {
  constexpr const char* kDigits = "expected four hexadecimal digits after \\u";
  EXPECT_EQ(string_of(R"("\u")"), std::string("json_syntax at 3: ") + kDigits);
  EXPECT_EQ(string_of(R"("\u004")"), std::string("json_syntax at 6: ") + kDigits);
  EXPECT_EQ(string_of(R"("\u00g0")"), std::string("json_syntax at 5: ") + kDigits);
  EXPECT_EQ(string_of(R"("\u+041")"), std::string("json_syntax at 3: ") + kDigits);
  EXPECT_EQ(string_of(R"("\u 041")"), std::string("json_syntax at 3: ") + kDigits);
  EXPECT_EQ(string_of(R"("\U0041")"), "json_syntax at 2: an unknown escape in a string");
  for (const char c : {'/', ':', '@', 'G', '`', 'g', '{'}) {  // neighbours of the digits
    EXPECT_EQ(string_of(std::string("\"\\u000") + c + "\""), std::string("json_syntax at 6: ") + kDigits) << c;
  }
}

TEST(JsonString, JoinsPairOfSurrogates) {
  EXPECT_EQ(string_of(R"("\ud83d\ude00")"), "\U0001F600");
  EXPECT_EQ(string_of(R"("\uD800\uDC00")"), "\U00010000");
  EXPECT_EQ(string_of(R"("\uD800\uDFFF")"), "\U000103FF");
  EXPECT_EQ(string_of(R"("\uDBFF\uDC00")"), "\U0010FC00");
  EXPECT_EQ(string_of(R"("\uDBFF\uDFFF")"), "\U0010FFFF");
}

TEST(JsonString, RefusesLoneSurrogate) {
  constexpr const char* kLone = "json_syntax at 2: a lone surrogate in a string";
  EXPECT_EQ(string_of(R"("x\ud800")"), kLone);
  EXPECT_EQ(string_of(R"("x\udc00")"), kLone);
  EXPECT_EQ(string_of(R"("x\udfff")"), kLone);
  EXPECT_EQ(string_of(R"("x\udc00\ud800")"), kLone);
  EXPECT_EQ(string_of(R"("x\ud800\ud800")"), kLone);
  EXPECT_EQ(string_of(R"("x\ud800\udbff")"), kLone);
  EXPECT_EQ(string_of(R"("x\ud800\ue000")"), kLone);
  EXPECT_EQ(string_of(R"("x\ud800\n")"), kLone);
  EXPECT_EQ(string_of(R"("x\ud800y")"), kLone);
  EXPECT_EQ(string_of(R"("x\ud800)"), kLone);
  EXPECT_EQ(string_of(R"("x\ud800\ud83d\ude00")"), kLone);
  EXPECT_EQ(string_of(R"("x\ud800\udc0")"), "json_syntax at 13: expected four hexadecimal digits after \\u");
}

TEST(JsonString, RefusesUnescapedControlCharacters) {
  for (int c = 1; c < 0x20; ++c) {
    const char control = static_cast<char>(c);
    EXPECT_EQ(string_of(std::string("\"ab") + control + "\""),
              "json_syntax at 3: a control character in a string must be escaped");
    EXPECT_EQ(string_of(std::string("\"\\n") + control + "\""),
              "json_syntax at 3: a control character in a string must be escaped");
  }
  EXPECT_EQ(string_of(std::string_view("\"a\0\"", 4)),
            "json_syntax at 2: a control character in a string must be escaped");
}

TEST(JsonString, MustBeClosed) {
  EXPECT_EQ(string_of("\""), "json_syntax at 1: a string is not closed");
  EXPECT_EQ(string_of("\"abc"), "json_syntax at 4: a string is not closed");
  EXPECT_EQ(string_of("\"abc\\n"), "json_syntax at 6: a string is not closed");
  EXPECT_EQ(string_of("\"abc\\\""), "json_syntax at 6: a string is not closed");
  EXPECT_EQ(string_of("\"abc\\"), "json_syntax at 5: the text ends too early");
  EXPECT_EQ(string_of("\"\\u00"), "json_syntax at 5: the text ends too early");
  for (std::size_t size = 0; size < 40; ++size) {  // the quotes behind the text do not close it
    EXPECT_EQ(string_of("\"" + std::string(size, 'x')),
              "json_syntax at " + std::to_string(size + 1) + ": a string is not closed");
  }
}

TEST(JsonString, RefusesOtherValues) {
  for (const char* const value : {"1", "-1", "{}", "[]", "true", "false", "null"}) {
    EXPECT_EQ(string_of(value), "json_type at 0: expected a string") << value;
  }
  for (const char* const nothing : {"'a'", "tru", "nul", "}", "]", ",", "-", "-x", "+1", ".5", "NaN", "a"}) {
    EXPECT_EQ(string_of(nothing), "json_syntax at 0: expected a string") << nothing;
  }
  EXPECT_EQ(string_of("  "), "json_syntax at 2: the text ends too early");
}

TEST(JsonNull, NeedsWholeWord) {
  Text json(" null");
  EXPECT_TRUE(json->null());
  EXPECT_EQ(json->offset(), 5u);
  Text other("1");
  EXPECT_FALSE(other->null());
  EXPECT_EQ(other->failure().code, Errc::ok);  // nothing was read
  Text cut("nul");
  EXPECT_FALSE(cut->null());
  EXPECT_EQ(cut.failure(), "json_syntax at 3: the text ends too early");
  Text wrong("nUll");
  EXPECT_FALSE(wrong->null());
  EXPECT_EQ(wrong.failure(), "json_syntax at 1: expected a value");
}

TEST(JsonOpen, TakesExpectedBracketOnly) {
  EXPECT_TRUE(Text(" {")->open('{', "an object"));
  EXPECT_TRUE(Text("[")->open('[', "an array"));
  Text array("[");
  EXPECT_FALSE(array->open('{', "an object, please"));
  EXPECT_EQ(array.failure(), "json_type at 0: an object, please");
  Text nothing(" )");
  EXPECT_FALSE(nothing->open('{', "an object, please"));
  EXPECT_EQ(nothing.failure(), "json_syntax at 1: an object, please");
}

TEST(JsonNext, TakesCommaOrClosingBracket) {
  bool more = false;
  EXPECT_TRUE(Text(" ,")->next('}', more));
  EXPECT_TRUE(more);
  EXPECT_TRUE(Text("}")->next('}', more));
  EXPECT_FALSE(more);
  Text wrong(" ]");
  EXPECT_FALSE(wrong->next('}', more));
  EXPECT_EQ(wrong.failure(), "json_syntax at 1: expected , or }");
  Text other("}");
  EXPECT_FALSE(other->next(']', more));
  EXPECT_EQ(other.failure(), "json_syntax at 0: expected , or ]");
  Text end("");
  EXPECT_FALSE(end->next(']', more));
  EXPECT_EQ(end.failure(), "json_syntax at 0: the text ends too early");
}

TEST(JsonKey, TakesStringAndColon) {
  Text json(" \"a\\u0062\" : 1");
  std::string_view key;
  std::size_t start = 0;
  ASSERT_TRUE(json->key(key, start));
  EXPECT_EQ(key, "ab");
  EXPECT_EQ(start, 1u);
  EXPECT_EQ(json->peek(), '1');
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

TEST(JsonSkip, RefusesPartsOfWords) {
  EXPECT_EQ(skip("truE"), "json_syntax at 3: expected a value");
  EXPECT_EQ(skip("falsE"), "json_syntax at 4: expected a value");
  EXPECT_EQ(skip("fals"), "json_syntax at 4: the text ends too early");
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

TEST(JsonEnd, AllowsWhiteSpace) {
  EXPECT_TRUE(Text("")->end());
  EXPECT_TRUE(Text(" \t\r\n ")->end());
}

TEST(JsonEnd, RefusesAnythingElse) {
  for (const char c : {'\0', '}', ',', 'x', '\v', '\f', '\x1a'}) {
    Text json(std::string(" ") + c);
    EXPECT_FALSE(json->end());
    EXPECT_EQ(json.failure(), "json_syntax at 1: nothing but white space may follow the object");
  }
  Text twice(std::string_view(" \0 \0", 4));
  EXPECT_FALSE(twice->end());
  EXPECT_EQ(twice.failure(), "json_syntax at 1: nothing but white space may follow the object");
}

TEST(JsonFail, KeepsCodeOffsetAndText) {
  Text json("abc");
  EXPECT_FALSE(json->fail(Errc::unknown_dtype, 2, "so it is"));
  EXPECT_EQ(json.failure(), "unknown_dtype at 2: so it is");
}

TEST(JsonFail, ReportsNextByteOrEnd) {
  Text json("abc");
  json->move_to(json->position() + 1);
  EXPECT_FALSE(json->fail_here("not this"));
  EXPECT_EQ(json.failure(), "json_syntax at 1: not this");
  Text end("abc");
  end->move_to(end->position() + 3);
  EXPECT_FALSE(end->fail_here("not this"));
  EXPECT_EQ(end.failure(), "json_syntax at 3: the text ends too early");
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
