// The writer of JSON: every escape. The reader reads the text back.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "json/reader.h"
#include "json/writer.h"

namespace {

using safetensors::json::Reader;

std::string written(std::string_view text) {
  std::string out = "before ";
  safetensors::json::append_string(out, text);
  EXPECT_EQ(out.size() - 7, safetensors::json::string_size(text));
  EXPECT_EQ(out.substr(0, 7), "before ");
  return out.substr(7);
}

std::string read_again(std::string text) {
  const std::size_t size = text.size();
  text.append(1 + Reader::kPadding, '\0');
  Reader reader(text.data(), size);
  std::string_view value;
  return reader.string(value) && reader.end() ? std::string(value) : reader.failure().what;
}

TEST(JsonWriter, KeepsPlainText) {
  EXPECT_EQ(written(""), "\"\"");
  EXPECT_EQ(written("a b/c'"), "\"a b/c'\"");
  EXPECT_EQ(written("gr\u00f6\u00dfe \u4e2d \U0001F600 \u2028 \x7f"),
            "\"gr\u00f6\u00dfe \u4e2d \U0001F600 \u2028 \x7f\"");
}

TEST(JsonWriter, WritesEachEscape) {
  EXPECT_EQ(written("\"\\\b\t\n\f\r"), R"("\"\\\b\t\n\f\r")");
  EXPECT_EQ(written(std::string_view("\0\x01\x07\x0b\x0e\x0f\x10\x1a\x1f", 9)),
            R"("\u0000\u0001\u0007\u000b\u000e\u000f\u0010\u001a\u001f")");
  EXPECT_EQ(written("a\nb\n"), R"("a\nb\n")");
}

TEST(JsonWriter, EscapesToAscii) {
  std::string out = "\u00e9";
  safetensors::json::append_ascii_string(out, "a\n\u00e9\u4e2d\uffff\U00010000\U0010FFFF\x7f");
  EXPECT_EQ(out, "\u00e9\"a\\n\\u00e9\\u4e2d\\uffff\\ud800\\udc00\\udbff\\udfff\\u007f\"");
}

TEST(JsonWriter, WritesWhatReaderReads) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  all += "\u00e9\u4e2d\U0001F600";
  EXPECT_EQ(read_again(written(all)), all);
  for (const char c : all.substr(0, 128)) EXPECT_EQ(read_again(written({&c, 1})), std::string(1, c));
}

}  // namespace
