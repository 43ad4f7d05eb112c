// The numbered files of one model, by their names.
#include "format/checkpoint/shard_set.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace safetensors::format {
namespace {

using Names = std::vector<std::string>;

TEST(ShardSet, NamesMissingFiles) {
  const auto whole = shard_set(Names{"m-00002-of-00002.safetensors", "m-00001-of-00002.safetensors"});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->count, 2U);
  EXPECT_EQ(whole->missing, Names{});
  const auto part = shard_set(Names{"m-gen00002-00002-of-00004.safetensors", "m-gen00002-00003-of-00004.safetensors"});
  ASSERT_TRUE(part);
  EXPECT_EQ(part->count, 4U);
  EXPECT_EQ(part->missing, (Names{"m-gen00002-00001-of-00004.safetensors", "m-gen00002-00004-of-00004.safetensors"}));
  const auto wide = shard_set(Names{"m-000001-of-000002.safetensors"});
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->missing, Names{"m-000002-of-000002.safetensors"});
}

TEST(ShardSet, RefusesNamesOfOtherModels) {
  const std::string first = "m-00001-of-00003.safetensors";
  ASSERT_TRUE(shard_set(Names{first}));
  for (const char* other :
       {"n-00002-of-00003.safetensors", "m-00002-of-00004.safetensors", "m-gen00002-00002-of-00003.safetensors",
        "m-000002-of-00003.safetensors", "m-00001-of-00003.safetensors", "m-00004-of-00003.safetensors",
        "m-00000-of-00003.safetensors", "m.safetensors", ""})
    EXPECT_FALSE(shard_set(Names{first, other})) << other;
  EXPECT_FALSE(shard_set(Names{}));
}

TEST(ShardSet, LimitsCount) {
  const auto set = shard_set(Names{"m-00001-of-99999.safetensors"});
  ASSERT_TRUE(set);
  EXPECT_EQ(set->missing.size(), 99'998U);
  for (const char* name : {"m-000001-of-100000.safetensors", "m-00001-of-00000.safetensors",
                           "m-18446744073709551617-of-18446744073709551617.safetensors"})
    EXPECT_FALSE(shard_set(Names{name})) << name;
}

}  // namespace
}  // namespace safetensors::format
