// The index of a model of several files: the accepted texts, and the error of each mistake.
#include "format/checkpoint/shard_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "format/checkpoint/index_text.h"
#include "json/reader.h"
#include "support/io_support.h"

namespace safetensors::format {
namespace {

constexpr const char* kNoMap =
    "invalid index: it has no weight_map (a configuration? open the model's folder, its index or a .safetensors file)";

using test::error_of;
using test::succeeds;

Result<std::unique_ptr<const ShardIndex>> parse(std::string_view text) {
  // Exactly as large as promised, so that a sanitizer sees what is read behind it.
  auto copy = std::make_unique<char[]>(text.size() + json::Reader::kPadding);
  std::memcpy(copy.get(), text.data(), text.size());
  return ShardIndex::parse(std::move(copy), text.size());
}

std::map<std::string, std::string> pairs_of(const ShardIndex& index) {
  std::map<std::string, std::string> pairs;
  for (std::size_t i = 0; i < index.size(); ++i) pairs[std::string(index[i].tensor)] = index.shard(index[i].shard);
  return pairs;
}

TEST(ShardIndex, MapsTensorsToFiles) {
  const std::string text = R"( {"weight_map": {"b":"2.safetensors", "a" : "1.safetensors","c\u0041":"2.safetensors"},
                               "metadata": {"total_size": 1e3, "x": [[], {}, null]}, "other": -1.5} )";
  const auto index = parse(text);
  ASSERT_TRUE(succeeds(index));
  EXPECT_EQ(pairs_of(**index), (std::map<std::string, std::string>{
                                   {"a", "1.safetensors"}, {"b", "2.safetensors"}, {"cA", "2.safetensors"}}));
  ASSERT_EQ((*index)->shard_count(), 2U);
  EXPECT_EQ((*index)->shard(0), "1.safetensors");
  EXPECT_EQ((*index)->shard(1), "2.safetensors");
  ASSERT_EQ((*index)->of_shard(0).size(), 1U);
  EXPECT_EQ((**index)[*(*index)->of_shard(0).begin()].tensor, "a");
  EXPECT_EQ((*index)->of_shard(1).size(), 2U);
  EXPECT_EQ((*index)->find("cA"), 2U);
  EXPECT_EQ((**index)[2].offset, text.find(R"("c\u)"));
  EXPECT_EQ((*index)->find("c"), ShardIndex::kNone);
}

// The names hold all that the search for files could mistake: quotes, colons, ends of lines, and names of files.
TEST(ShardIndex, RenamesFilesOfIndexText) {
  const std::vector<std::string> from = {"a\",b-00001-of-00002.safetensors", "a\",b-00002-of-00002.safetensors"};
  const std::vector<std::string> to = {"b.safetensors", "c.safetensors"};
  const std::vector<std::string> tensors = {"x", "\n    \"y\": \"" + from[1] + "\"", from[1], ",", "x: ", "y\": \"z"};
  const auto text = [&](const std::vector<std::string>& files) {
    IndexText index;
    EXPECT_TRUE(succeeds(index.metadata(7, R"({"weight_map": {"x": ["\n  \"weight_map\": {"]}})")));
    for (std::size_t i = 0; i < tensors.size(); ++i) index.tensor(tensors[i], files[i < 3 ? 0 : 1]);
    return std::move(index).finish();
  };
  EXPECT_EQ(rename_files(text(from), from, to), text(to));
}

TEST(ShardIndex, KeepsMetadata) {
  const auto metadata = [](const std::string& member) {
    const auto index = parse("{" + member + R"("weight_map":{}})");
    return succeeds(index) ? (*index)->metadata() : index.error().to_string();
  };
  EXPECT_EQ(metadata(""), "");
  EXPECT_EQ(metadata(R"("metadata" : { } ,)"), "{}");
  EXPECT_EQ(metadata(R"("metadata": {"total_size": 1e3, "x\u0041\n": [[ ], {"y" : "\u00e9"}, null]},)"),
            "{\"total_size\":1e3,\"xA\\n\":[[],{\"y\":\"\u00e9\"},null]}");
  EXPECT_EQ(metadata(R"("metadata":{"a":1},"metadata":{"b":2},)"), R"({"b":2})");
  for (const char* other : {"null", "[]", "1", "\"x\""})
    EXPECT_EQ(metadata("\"metadata\":" + std::string(other) + ","), "");
  EXPECT_EQ(metadata(R"("metadata":{"a":1},"metadata":null,)"), "");
}

TEST(ShardIndex, ReadsTotalSize) {
  const auto size = [](const std::string& value) {
    const auto index = parse(R"({"metadata":{"total_size":)" + value + R"(},"weight_map":{}})");
    return succeeds(index) ? (*index)->total_size() : 0;
  };
  EXPECT_EQ(size("512"), 512U);
  EXPECT_EQ(size("18446744073709551615"), ~std::uint64_t{0});
  for (const char* other : {"18446744073709551616", "-1", "1.0", "1e3", "\"1\"", "null", "[1]"})
    EXPECT_EQ(size(other), std::nullopt) << other;
}

TEST(ShardIndex, RefusesInvalidIndexes) {
  const std::string deep = R"({"metadata":)" + std::string(127, '[') + std::string(127, ']') + "}";
  const struct {
    std::string text;
    std::uint64_t at;
    std::string message;
  } cases[] = {
      {"", 0, "invalid JSON in index: the text ends too early"},
      {"[]", 0, "invalid JSON in index: an index must be an object"},
      {"{}", 0, kNoMap},
      {R"({"metadata":{}})", 0, kNoMap},
      {R"({"weight_map":[]})", 14, "invalid JSON in index: weight_map must be an object"},
      {R"({"weight_map":null})", 14, "invalid JSON in index: weight_map must be an object"},
      {R"({"weight_map":{}} x)", 18, "invalid JSON in index: nothing but white space may follow the object"},
      {R"({"weight_map":{},})", 17, "invalid JSON in index: expected a key in double quotes"},
      {R"({"weight_map":{"a":"a.safetensors",}})", 35, "invalid JSON in index: expected a key in double quotes"},
      {R"({"weight_map":{"a":"a.safetensors"})", 35, "invalid JSON in index: the text ends too early"},
      {R"({"weight_map":{"a\n":1}})", 21, "invalid JSON in index: tensor `a\\u{a}`: expected a string"},
      {R"({"weight_map":{"a":"\x.safetensors"}})", 21,
       "invalid JSON in index: tensor `a`: an unknown escape in a string"},
      {R"({"weight_map":{},"weight_map":{}})", 17, "invalid index: a second weight_map"},
      {R"({"weight_map":{},"weight\u005fmap":{}})", 17, "invalid index: a second weight_map"},
      {R"({"weight_map":{"a":"a.safetensors","\u0061":"b.safetensors"}})", 35,
       "invalid index: tensor `a` is in weight_map twice"},
      {R"({"weight_map":{"a":"/a.safetensors"}})", 19,
       "invalid index: no file of tensor `a` may be called `/a.safetensors`: it begins with a separator"},
      {R"({"weight_map":{"a":"a\u001b[2J.safetensors"}})", 19,
       "invalid index: no file of tensor `a` may be called `a\\u{1b}[2J.safetensors`: it holds a control or invisible "
       "character"},
      {R"({"weight_map":{"a":"pytorch_model.bin"}})", 19,
       "invalid index: no file of tensor `a` may be called `pytorch_model.bin`: it does not end in "
       "`.safetensors` (the index of a PyTorch model? convert the model)"},
      {"{\"weight_map\":{\"a\":\"\xff.safetensors\"}}", 20,
       "invalid UTF-8 in index: this byte begins no valid sequence"},
      {deep, 138, "invalid JSON in index: more than 127 open containers"},
  };
  for (const auto& each : cases) {
    const Error error = error_of(parse(each.text));
    EXPECT_EQ(error.code, Errc::invalid_index) << each.text;
    EXPECT_EQ(error.offset, each.at) << each.text;
    EXPECT_EQ(error.message, each.message) << each.text;
  }
}

TEST(ShardIndex, CutsLongNamesInErrors) {
  const std::string name(1000, 'n');
  const std::string text = R"({"weight_map":{")" + name + R"(":")" + name + R"("}})";
  EXPECT_EQ(error_of(parse(text)).message, "invalid index: no file of tensor `" + name.substr(0, 200) +
                                               "...` may be called `" + name.substr(0, 200) +
                                               "...`: it does not end in `.safetensors`");
}

TEST(ShardIndex, RefusesUnsafeShardNames) {
  const char* const separator = "it begins with a separator";
  const char* const up = "it leads out of a folder";
  const char* const longer = "a shorter path leads to this file";
  const char* const colon = "it holds a colon";
  const char* const unseen = "it holds a control or invisible character";
  const char* const extension = "it does not end in `.safetensors`";
  const struct {
    std::string name;
    const char* why;
  } cases[] = {
      {"model.safetensors", nullptr},
      {"model-00001-of-00002.safetensors", nullptr},
      {"sub/model.safetensors", nullptr},
      {"sub\\model.safetensors", nullptr},
      {"./model.safetensors", longer},
      {"a//b.safetensors", longer},
      {"a/./b.safetensors", longer},
      {"a\\.\\b.safetensors", longer},
      {"a\\\\b.safetensors", longer},
      {"..a.safetensors", nullptr},
      {"a../b.safetensors", nullptr},
      {".hidden/..b/c...safetensors", nullptr},
      {"gr\xc3\xb6\xc3\x9f"
       "e.safetensors",
       nullptr},
      {".safetensors", nullptr},
      {"", "it is empty"},
      {std::string("a\0.safetensors", 14), "it holds a zero byte"},
      {"a\x1b[31m.safetensors", unseen},
      {"a\n.safetensors", unseen},
      {"a\t.safetensors", unseen},
      {"a\x7f.safetensors", unseen},
      {"a\xc2\x80.safetensors", unseen},  // U+0080: C1
      {"a\xc2\x9b"
       "31m.safetensors",
       unseen},                                                   // U+009B: CSI
      {"a\xe2\x80\xae.safetensors", unseen},                      // U+202E: right to left
      {"a\xe2\x81\xa6.safetensors", unseen},                      // U+2066: isolate
      {"a\xe2\x80\x8b.safetensors", unseen},                      // U+200B: zero width
      {"a\xc2\xa0.safetensors", nullptr},                         // U+00A0: a space that is not broken
      {"\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d.safetensors", nullptr},  // right to left by itself
      {"\x1b.bin", unseen},
      {"/model.safetensors", separator},
      {"\\model.safetensors", separator},
      {"//host/share/a.safetensors", separator},
      {"\\\\host\\share\\a.safetensors", separator},
      {"\\\\?\\C:\\a.safetensors", separator},
      {"C:/a.safetensors", colon},
      {"C:\\a.safetensors", colon},
      {"C:a.safetensors", colon},
      {"a:stream.safetensors", colon},
      {"a/b:c/d.safetensors", colon},
      {"../a.safetensors", up},
      {"..\\a.safetensors", up},
      {"a/../b.safetensors", up},
      {"a\\..\\b.safetensors", up},
      {"a/..\\b.safetensors", up},
      {"a/.. /b.safetensors", up},
      {"a/.../b.safetensors", up},
      {"a/.. . ./b.safetensors", up},
      {"..", up},
      {"a/..", up},
      {"a", extension},
      {"a.bin", extension},
      {"a.safetensors/", extension},
      {"a.safetensors\\", extension},
      {"a.safetensors ", extension},
      {"a.safetensors.", extension},
      {"a.SAFETENSORS", extension},
      {"safetensors", extension},
  };
  for (const auto& each : cases) {
    const char* const why = check_shard_name(each.name);
    EXPECT_STREQ(why, each.why) << each.name;
  }
}

// A plain reading of an index without escapes, white space, or anything but strings.
bool naive(std::string_view text, std::map<std::string, std::string>& out) {
  const std::string_view begin = R"({"weight_map":{)";
  if (!text.starts_with(begin) || !text.ends_with("}}")) return false;
  text = text.substr(begin.size(), text.size() - begin.size() - 2);
  while (!text.empty()) {
    std::string parts[2];
    for (std::string& part : parts) {
      if (!text.starts_with('"')) return false;
      const std::size_t end = text.find('"', 1);
      if (end == text.npos) return false;
      part = text.substr(1, end - 1);
      if (std::any_of(part.begin(), part.end(), [](char c) { return c == '\\' || c < ' '; })) return false;
      text.remove_prefix(end + 1);
      if (&part == parts && !text.starts_with(':')) return false;
      if (&part == parts) text.remove_prefix(1);
    }
    if (check_shard_name(parts[1]) != nullptr || !out.emplace(parts[0], parts[1]).second) return false;
    if (text.empty()) return true;
    if (!text.starts_with(',') || text.size() == 1) return false;
    text.remove_prefix(1);
  }
  return true;
}

// Mutations that keep to ASCII without white space: the two verdicts must then be the same, but for texts that only a
// reader of all JSON understands.
TEST(ShardIndex, AgreesWithPlainReader) {
  std::mt19937_64 random(20261112);
  const std::string alphabet = R"("":,{}abAB12/\.:-u)";
  int accepted = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string text = R"({"weight_map":{)";
    const std::size_t count = random() % 6;
    for (std::size_t i = 0; i < count; ++i)
      text += (i == 0 ? "\"t" : ",\"t") + std::to_string(random() % 20) + "\":\"" +
              std::string(1, static_cast<char>('a' + random() % 3)) + ".safetensors\"";
    text += "}}";
    for (std::size_t i = random() % 3; i > 0; --i) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 3);
      else if (random() % 2 == 0)
        text.insert(at, 1, c);
      else
        text[at] = c;
    }
    std::map<std::string, std::string> expected;
    const bool plain = naive(text, expected);
    const auto index = parse(text);
    if (plain) {
      ASSERT_TRUE(succeeds(index)) << text;
    } else if (!index) {
      const Error error = error_of(index);
      ASSERT_EQ(error.code, Errc::invalid_index) << text;
      ASSERT_LE(error.offset, text.size()) << text;
      continue;
    } else {
      ASSERT_NE(text.find('\\'), text.npos) << text;  // only an escape makes it one that is not plain
      continue;
    }
    ++accepted;
    ASSERT_EQ(pairs_of(**index), expected) << text;
    std::size_t grouped = 0;
    for (std::uint32_t shard = 0; shard < (*index)->shard_count(); ++shard) {
      for (const std::uint32_t entry : (*index)->of_shard(shard)) {
        ASSERT_EQ((**index)[entry].shard, shard);
        ASSERT_EQ((*index)->find((**index)[entry].tensor), entry);
        ASSERT_EQ(text[(**index)[entry].offset], '"');
        ++grouped;
      }
      ASSERT_GT((*index)->of_shard(shard).size(), 0U);
    }
    ASSERT_EQ(grouped, expected.size());
  }
  EXPECT_GT(accepted, 2000);
}

}  // namespace
}  // namespace safetensors::format
