#include <safetensors/error.h>

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace st = safetensors;

TEST(Errc, HasUniqueNames) {
  std::set<std::string> names;
  for (int number = 0; number < 256; ++number) {
    const std::string name = st::to_string(static_cast<st::Errc>(number));
    if (name == "unknown") continue;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(names.size(), 58u);
  EXPECT_STREQ(st::to_string(st::Errc::duplicate_key), "duplicate_key");
}

TEST(Errc, DerivesFormatRuleFromNumber) {
  EXPECT_EQ(st::format_rule(st::Errc::header_too_small), 1);
  EXPECT_EQ(st::format_rule(st::Errc::duplicate_key), 5);
  EXPECT_EQ(st::format_rule(st::Errc::incomplete_data), 10);
  EXPECT_EQ(st::format_rule(st::Errc::ok), 0);
  EXPECT_EQ(st::format_rule(st::Errc::invalid_index), 0);
  EXPECT_EQ(st::format_rule(st::Errc::ambiguous_checkpoint), 0);
  EXPECT_EQ(st::format_rule(st::Errc::reserved_name), 0);
}

TEST(Errc, TellsSystemErrorsApart) {
  EXPECT_TRUE(st::is_system_error(st::Errc::open_failed));
  EXPECT_TRUE(st::is_system_error(st::Errc::out_of_memory));
  EXPECT_TRUE(st::is_system_error(st::Errc::device_failed));
  EXPECT_FALSE(st::is_system_error(st::Errc::unsupported));
  EXPECT_FALSE(st::is_system_error(st::Errc::invalid_argument));
  EXPECT_FALSE(st::is_system_error(st::Errc::size_mismatch));
}

TEST(Printable, KeepsText) {
  EXPECT_EQ(st::printable("model.layers.0.weight"), "model.layers.0.weight");
  EXPECT_EQ(st::printable("größe \u4e2d \U0001F600"), "größe \u4e2d \U0001F600");
  EXPECT_EQ(st::printable(""), "");
}

TEST(Printable, EscapesInvisibleCharacters) {
  EXPECT_EQ(st::printable(std::string("a\0b", 3)), "a\\u{0}b");
  EXPECT_EQ(st::printable("\x1b[31m\n\t"), "\\u{1b}[31m\\u{a}\\u{9}");
  EXPECT_EQ(st::printable("\x7f\u0085\u00ad"), "\\u{7f}\\u{85}\\u{ad}");
  EXPECT_EQ(st::printable("\u202e\u2066\u200b\ufeff"), "\\u{202e}\\u{2066}\\u{200b}\\u{feff}");
  EXPECT_EQ(st::printable("\U000E0041"), "\\u{e0041}");
  EXPECT_EQ(st::printable("a\\u{0}"), "a\\\\u{0}");
}

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(st::printable("a\xff z"), "a\\xff z");
  EXPECT_EQ(st::printable("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(st::printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(st::printable("\xe4\xb8"), "\\xe4\\xb8");
}

TEST(Error, ShowsPathAndOffsetIfKnown) {
  st::Error error;
  error.message = "it broke";
  EXPECT_EQ(error.to_string(), "it broke");
  error.offset = 17;
  EXPECT_EQ(error.to_string(), "it broke (byte 17)");
  error.path = "a\nb";
  EXPECT_EQ(error.to_string(), "a\\u{a}b: it broke (byte 17)");
}

TEST(Result, HoldsValueOrError) {
  st::Result<int> good = 3;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 3);
  EXPECT_EQ(good.value(), 3);
  const st::Result<int> bad = st::Error{.code = st::Errc::not_found, .message = "no"};
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().code, st::Errc::not_found);
  EXPECT_EQ(st::Result<int>(bad).value_or(7), 7);
  EXPECT_EQ(bad.value_or(9), 9);
  EXPECT_EQ(good.value_or(9), 3);
}

TEST(Result, ThrowsErrorFromValue) {
  const st::Result<int> bad = st::Error{.code = st::Errc::not_found, .offset = 9, .message = "no"};
  try {
    (void)bad.value();
    FAIL();
  } catch (const st::Exception& e) {
    EXPECT_STREQ(e.what(), "no (byte 9)");
    EXPECT_EQ(e.error().code, st::Errc::not_found);
  }
  EXPECT_THROW(st::Status(st::Error{.code = st::Errc::not_found}).value(), st::Exception);
  EXPECT_NO_THROW(st::Status().value());
}

TEST(Result, MovesWhatCannotBeCopied) {
  st::Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}
