// The size of an index limits the memory that it takes, whatever the index contains. So does the size of exported
// headers.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/checkpoint/shard_index.h"
#include "json/reader.h"
#include "support/allocation_counter.h"
#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

using format::ShardIndex;

constexpr std::size_t kBytes = std::size_t{12} << 20;

void expect_bounded(const std::string& text, bool accepted) {
  SCOPED_TRACE(text.substr(0, 100));
  const allocations::Peak peak;
  auto copy = std::make_unique<char[]>(text.size() + json::Reader::kPadding);
  std::memcpy(copy.get(), text.data(), text.size());
  const auto index = ShardIndex::parse(std::move(copy), text.size());
  EXPECT_EQ(index.ok(), accepted) << (index ? "" : index.error().to_string());
  EXPECT_LE(peak.bytes(), 4 * text.size() + (64 << 10)) << text.size() << " bytes of text";
}

std::string map_of(const std::function<std::string(std::size_t)>& member, std::size_t bytes = kBytes) {
  return repeated(R"({"weight_map":{)", "}}", bytes, member);
}

std::string entry(std::string_view tensor, std::string_view shard) {
  return "\"" + std::string(tensor) + "\":\"" + std::string(shard) + ".safetensors\"";
}

// Number i in as few characters as digits of 64 kinds need.
std::string letters(std::size_t i) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
  std::string name;
  for (; i > 0; i /= 64) name += kDigits[i % 64];
  return name;
}

TEST(IndexMemory, IsBoundedForAnyEntries) {
  const struct {
    std::function<std::string(std::size_t)> member;
    bool accepted = true;
  } cases[] = {
      // Shards: one per entry, in order, in reverse order, two in turn, one.
      {[](std::size_t i) { return entry(letters(i), letters(i)); }},
      {[](std::size_t i) { return entry(letters(i), std::to_string(1'000'000 + i)); }},
      {[](std::size_t i) { return entry(letters(i), std::to_string(9'000'000 - i)); }},
      {[](std::size_t i) { return entry(letters(i), i % 2 == 0 ? "" : "a"); }},
      {[](std::size_t i) { return entry(letters(i), ""); }},
      // Names: one, with escapes.
      {[](std::size_t) { return entry("", ""); }, false},
      {[](std::size_t i) { return entry("", i % 2 == 0 ? "" : "a"); }, false},
      {[](std::size_t i) { return entry("\\u0061" + letters(i), "\\u0062" + letters(i)); }},
      {[](std::size_t i) { return entry(letters(i) + "\\n", letters(i)); }},
  };
  for (const auto& each : cases) expect_bounded(map_of(each.member), each.accepted);
}

TEST(IndexMemory, IsBoundedForRepeatedWeightMap) {
  expect_bounded(repeated("{", "}", kBytes, [](std::size_t) { return std::string(R"("weight_map":{})"); }), false);
  const std::string half = map_of([](std::size_t i) { return entry(letters(i), letters(i)); }, kBytes / 2);
  expect_bounded(half.substr(0, half.size() - 1) + "," + half.substr(1), false);
}

TEST(IndexMemory, IsBoundedForOtherMembers) {
  const std::string end = R"(],"weight_map":{}})";
  expect_bounded(repeated(R"({"metadata":[)", end, kBytes, [](std::size_t) { return std::string("0"); }), true);
  expect_bounded(repeated(R"({"metadata":[)", end, kBytes, [](std::size_t) { return std::string("[{}]"); }), true);
  expect_bounded(R"({"weight_map":{"":")" + std::string(kBytes, 'n') + R"(.safetensors"}})", true);
  expect_bounded(R"({"weight_map":{"":")" + std::string(kBytes, '\x7f') + R"("}})", false);
}

// Small ones, where a block or a table that is half empty would show.
TEST(IndexMemory, IsBoundedForMetadata) {
  const auto member = [](std::size_t i) { return "\"" + letters(i) + "\":0"; };
  expect_bounded(repeated(R"({"weight_map":{},"metadata":{)", "}}", kBytes, member), true);
  expect_bounded(repeated(R"({"weight_map":{},"metadata":{"a":[)", "]}}", kBytes, [](std::size_t) { return "1"; }),
                 true);
  const std::string half = repeated(R"("metadata":{)", "}", kBytes / 2, member);
  expect_bounded("{" + half + "," + half + R"(,"weight_map":{}})", true);
  const auto tensor = [](std::size_t i) { return entry(letters(i), letters(i)); };
  expect_bounded("{" + half + "," + map_of(tensor, kBytes / 2).substr(1), true);
}

TEST(IndexMemory, IsBoundedForEverySize) {
  for (std::size_t bytes = 20; bytes < 300'000; bytes += bytes / 7 + 1)
    expect_bounded(map_of([](std::size_t i) { return entry(letters(i), letters(i)); }, bytes), true);
}

// All that opening takes besides the files: here none of them is there.
TEST(IndexMemory, IsBoundedIfFilesAreMissing) {
  const TemporaryDirectory directory;
  const std::string path = directory / "model.safetensors.index.json";
  const std::string text = map_of([](std::size_t i) { return entry(letters(i), letters(i)); });
  put(path, text);
  const allocations::Peak peak;
  EXPECT_EQ(error_of(Checkpoint::open(path)).code, Errc::open_failed);
  EXPECT_LE(peak.bytes(), 6 * text.size() + (1 << 20)) << text.size() << " bytes of text";
}

// The files are there: what they take by themselves is not the index's.
TEST(IndexMemory, IsBoundedIfFilesArePresent) {
  const TemporaryDirectory directory;
  constexpr std::size_t kShards = 20;
  constexpr std::size_t kTensors = 2000;  // in each
  std::vector<std::pair<std::string, std::string>> map;
  std::vector<std::string> paths;
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    const std::string name = std::to_string(shard) + ".safetensors";
    std::vector<std::pair<std::string, std::string>> tensors;
    for (std::size_t i = 0; i < kTensors; ++i) {
      tensors.emplace_back(std::to_string(shard) + "." + letters(i), "");
      map.emplace_back(tensors.back().first, name);
    }
    paths.push_back(directory / name);
    put(paths.back(), u8_file(tensors));
  }
  const std::string path = directory / "model.safetensors.index.json";
  const std::string text = index_text(map);
  put(path, text);

  std::uint64_t of_files = 0;
  {
    const allocations::Peak peak;
    std::vector<File> files;
    for (const std::string& each : paths) files.push_back(File::open(each).value());
    of_files = peak.bytes();
  }
  const allocations::Peak peak;
  EXPECT_TRUE(succeeds(Checkpoint::open(path)));
  EXPECT_LE(peak.bytes(), of_files + 6 * text.size() + (1 << 20)) << text.size() << " bytes of text";
}

}  // namespace
}  // namespace safetensors::test
