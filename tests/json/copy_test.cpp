// Copies of JSON values: the text in one line and in indented lines, and the errors of the reader.
#include "json/copy.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace {

using safetensors::json::copy_value;
using safetensors::json::Lines;
using safetensors::json::Reader;

// The copy, or the failure and its offset.
std::string copied(std::string_view text, Lines lines = Lines::one, unsigned open = 0) {
  std::string padded(text);
  padded.append(Reader::kPadding, '\0');
  Reader reader(padded.data(), text.size());
  std::string out;
  if (copy_value(reader, open, &out, lines) && reader.end()) return out;
  return std::string(reader.failure().what) + " at " + std::to_string(reader.failure().offset);
}

TEST(JsonCopy, KeepsScalars) {
  for (const char* text : {"null", "true", "false", "0", "-1.5e-300", "12345678901234567890123", "\"\"", "\"a b\""})
    EXPECT_EQ(copied(text), text);
}

TEST(JsonCopy, RemovesWhiteSpace) {
  EXPECT_EQ(copied(" { \"a\" : [ 1 ,\n2 , { } , [ ] ] , \"b\":\t{\"c\" : null} } "),
            R"({"a":[1,2,{},[]],"b":{"c":null}})");
}

TEST(JsonCopy, IndentsAsPythonDoes) {
  EXPECT_EQ(copied(R"({"a":[1,2,{},[]],"b":{"c":null}})", Lines::indented),
            "{\n  \"a\": [\n    1,\n    2,\n    {},\n    []\n  ],\n  \"b\": {\n    \"c\": null\n  }\n}");
  EXPECT_EQ(copied("[[[]]]", Lines::indented, 1), "[\n    [\n      []\n    ]\n  ]");
}

TEST(JsonCopy, EscapesOnlyIndentedCopies) {
  EXPECT_EQ(copied(R"("\u00e9\ud83d\ude00\n\u0041")"), "\"\u00e9\U0001F600\\nA\"");
  EXPECT_EQ(copied(R"({"\u00e9":"\ud83d\ude00\n\u0041"})", Lines::indented),
            "{\n  \"\\u00e9\": \"\\ud83d\\ude00\\nA\"\n}");
}

TEST(JsonCopy, ReportsErrors) {
  EXPECT_EQ(copied("[1,]"), "expected a value at 3");
  EXPECT_EQ(copied("{\"a\" 1}"), "expected : after a key at 5");
  EXPECT_EQ(copied("[1"), "the text ends too early at 2");
  EXPECT_EQ(copied("[1] 2"), "nothing but white space may follow the object at 4");
}

TEST(JsonCopy, LimitsDepth) {
  const std::string deep = std::string(127, '[') + std::string(127, ']');
  EXPECT_EQ(copied(deep), deep);
  EXPECT_EQ(copied("[" + deep + "]"), "more than 127 open containers at 127");
}

}  // namespace
