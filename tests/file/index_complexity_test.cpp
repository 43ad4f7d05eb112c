// Nobody can make names of tensors collide, neither in an index nor in the files of a checkpoint. Lookups read few
// slots of the tables even for two kinds of hostile names: names computed for a known key of the current hash, and
// names that cancelled the seed of this project's first hash.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "file/checkpoint.h"
#include "format/checkpoint/shard_index.h"
#include "json/reader.h"
#include "support/checkpoint_support.h"
#include "support/hostile_names.h"

namespace safetensors::test {
namespace {

constexpr std::size_t kNames = 4000;
constexpr std::uint64_t kProbesPerName = 8;  // chance makes about two

// A key that is forgotten to be drawn is this one.
std::vector<std::vector<std::string>> hostile_lists() {
  return {hostile::names_solved_for(base::HashKey{}, kNames), hostile::names_that_cancel_a_seed(kNames)};
}

TEST(IndexComplexity, ReadsFewSlotsForHostileNames) {
  for (const std::vector<std::string>& names : hostile_lists()) {
    std::string text = R"({"weight_map":{)";
    for (const std::string& name : names)
      text += (text.back() == '{' ? "\"" : ",\"") + hostile::in_json(name) + R"(":"a.safetensors")";
    text += "}}";
    auto copy = std::make_unique<char[]>(text.size() + json::Reader::kPadding);
    std::memcpy(copy.get(), text.data(), text.size());
    const auto index = format::ShardIndex::parse(std::move(copy), text.size());
    ASSERT_TRUE(succeeds(index));
    EXPECT_EQ((*index)->size(), names.size());
    EXPECT_GE((*index)->probes(), names.size());  // the counter counts
    EXPECT_LE((*index)->probes(), kProbesPerName * names.size());
  }
}

TEST(IndexComplexity, ReadsFewSlotsInCheckpoint) {
  for (const std::vector<std::string>& names : hostile_lists()) {
    const TemporaryDirectory directory;
    std::vector<std::string> paths;
    for (std::size_t half = 0; half < 2; ++half) {
      std::vector<std::pair<std::string, std::string>> tensors;
      for (std::size_t i = half; i < names.size(); i += 2) tensors.emplace_back(hostile::in_json(names[i]), "x");
      paths.push_back(directory / (half == 0 ? "a.safetensors" : "b.safetensors"));
      put(paths.back(), u8_file(tensors));
    }
    const auto checkpoint = file::open_checkpoint(paths, {}, 16);
    ASSERT_TRUE(succeeds(checkpoint));
    EXPECT_EQ((*checkpoint)->entries.size(), names.size());
    EXPECT_GE((*checkpoint)->names.probes(), names.size());
    EXPECT_LE((*checkpoint)->names.probes(), kProbesPerName * names.size());
    for (std::size_t i = 0; i < names.size(); i += 97)
      EXPECT_NE((*checkpoint)->find(names[i]), format::NameIndex::kNone);
  }
}

}  // namespace
}  // namespace safetensors::test
