// The names of a model's files. The table holds names from real repositories.
#include "format/checkpoint/model_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/io_support.h"

namespace safetensors::format {
namespace {

using test::error_of;
using Names = std::vector<std::string>;

TEST(ModelNames, RecognizesIndexes) {
  const auto parts = [](std::string_view name) {
    const auto index = parse_index_name(name);
    return index ? std::string(index->prefix) + "|" + std::string(index->variant) + "|" + index->stem() : "none";
  };
  EXPECT_EQ(parts("model.safetensors.index.json"), "model||model");
  EXPECT_EQ(parts("adapter_model.safetensors.index.json"), "adapter_model||adapter_model");
  EXPECT_EQ(parts("model.safetensors.index.fp16.json"), "model|fp16|model.fp16");
  EXPECT_EQ(parts("diffusion_pytorch_model.safetensors.index.non_ema.json"),
            "diffusion_pytorch_model|non_ema|diffusion_pytorch_model.non_ema");
  EXPECT_EQ(parts("model.safetensors.fp16.index.json"), "model|fp16|model.fp16");
  EXPECT_EQ(parts("diffusion_pytorch_model.ema.safetensors.index.json"),
            "diffusion_pytorch_model.ema||diffusion_pytorch_model.ema");
  EXPECT_EQ(parts("m.safetensors.safetensors.index.json"), "m.safetensors||m.safetensors");
  for (const char* other : {"model.safetensors", "model.index.json", ".safetensors.index.json", "index.json",
                            "model.safetensors.index..json", "model.safetensors.index.json.bak",
                            "model.safetensors..index.json", "model.safetensors.a.b.json", ""})
    EXPECT_EQ(parts(other), "none") << other;
}

TEST(ModelNames, RecognizesShards) {
  const auto parts = [](std::string_view name) -> std::string {
    const auto shard = parse_shard_name(name);
    if (!shard) return "none";
    std::string text;
    for (const std::string_view part :
         {shard->before, shard->prefix, shard->generation, shard->number, shard->count, shard->variant})
      text.append(part).append("|");
    return text + shard->stem();
  };
  EXPECT_EQ(parts("model-00001-of-00003.safetensors"), "model|model||00001|00003||model");
  EXPECT_EQ(parts("model-00001-of-000163.safetensors"), "model|model||00001|000163||model");
  EXPECT_EQ(parts("model-00000-of-00002.safetensors"), "model|model||00000|00002||model");
  EXPECT_EQ(parts("model.safetensors-00001-of-00005.safetensors"), "model.safetensors|model||00001|00005||model");
  EXPECT_EQ(parts("model.fp16-00001-of-00002.safetensors"), "model.fp16|model.fp16||00001|00002||model.fp16");
  EXPECT_EQ(parts("model-00001-of-00002.fp16.safetensors"), "model|model||00001|00002|fp16|model.fp16");
  EXPECT_EQ(parts("model-gen00002-00001-of-00003.safetensors"), "model|model|00002|00001|00003||model");
  EXPECT_EQ(parts("model.safetensors-gen00002-00001-of-00005.safetensors"),
            "model.safetensors|model|00002|00001|00005||model");
  EXPECT_EQ(parts("a-00001-of-00002-00001-of-100000.safetensors"),
            "a-00001-of-00002|a-00001-of-00002||00001|100000||a-00001-of-00002");
  EXPECT_EQ(parts("-00001-of-00003.safetensors"), "|||00001|00003||");
  for (const char* other :
       {"model.safetensors", "model-0001-of-00003.safetensors", "model-00001-of-0003.safetensors",
        "model-00001-00003.safetensors", "model00001-of-00003.safetensors", ".safetensors",
        "00001-of-00003.safetensors", "model-00001-of-00003.bin", "-of-00003.safetensors",
        "model-00001-of-00003..safetensors", "model-00001-of-00003fp16.safetensors", "model.safetensors.index.json"})
    EXPECT_EQ(parts(other), "none") << other;
}

TEST(ModelNames, RecognizesGenerations) {
  const auto parts = [](std::string_view name) {
    return stem_of(name) + "|" + std::to_string(generation_of(name)) + "|" + without_generation(name);
  };
  EXPECT_EQ(parts("m-gen00002-00001-of-00003.safetensors"), "m|2|m-00001-of-00003.safetensors");
  EXPECT_EQ(parts("m-gen1234567-00001-of-00003.safetensors"), "m|1234567|m-00001-of-00003.safetensors");
  EXPECT_EQ(parts("m-gen00002-gen00003-00001-of-00001.safetensors"),
            "m-gen00002|3|m-gen00002-00001-of-00001.safetensors");
  EXPECT_EQ(parts("m-gen99999999999999999999-00001-of-00003.safetensors"), "m|0|m-00001-of-00003.safetensors");
  for (const char* plain : {"m.safetensors", "m-gen00002.safetensors", "m-gen2.safetensors", "m-gen00002x.safetensors",
                            "gen00002.safetensors", "m-00001-gen00002.safetensors.safetensors"}) {
    const std::string name(plain);
    EXPECT_EQ(parts(name), name.substr(0, name.rfind(".safetensors")) + "|1|" + name);
  }
  EXPECT_EQ(parts("m-gen00002.bin"), "|1|m-gen00002.bin");
  for (const char* name : {"m-00001-of-00003.safetensors", "m.safetensors-00001-of-00003.safetensors",
                           "m-00001-of-00003.fp16.safetensors"}) {
    for (const std::size_t generation : {1U, 2U, 99'999U, 1'000'000U}) {
      const std::string made = in_generation(name, generation);
      EXPECT_EQ(without_generation(made), name);
      EXPECT_EQ(generation_of(made), generation);
      EXPECT_EQ(stem_of(made), stem_of(name));
    }
  }
  EXPECT_EQ(error_of(check_stem("m-gen00002")).message,
            "no file may be called `m-gen00002.safetensors`: it looks like a generation of another model");
}

TEST(ModelNames, KeepsPatternOfIndex) {
  const auto kept = [](std::string_view index, const Names& shards) {
    const ModelNames names = ModelNames::of_index(index, shards);
    return Names{names.index, names.file(0, 1), names.file(0, 3), names.file(2, 3)};
  };
  const std::string plain = "model.safetensors.index.json";
  const std::string fp16 = "model.safetensors.index.fp16.json";
  const Names usual = {plain, "model.safetensors", "model-00001-of-00003.safetensors",
                       "model-00003-of-00003.safetensors"};
  EXPECT_EQ(kept(plain, {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}), usual);
  EXPECT_EQ(kept(plain, {"a.safetensors", "b.safetensors"}), usual);
  EXPECT_EQ(kept(plain, {"x/m-00001-of-00002.safetensors", "x/m-00002-of-00002.safetensors"}), usual);
  EXPECT_EQ(kept(plain, {}), usual);
  EXPECT_EQ(
      kept(plain, {"model.safetensors-00001-of-00002.safetensors", "model.safetensors-00002-of-00002.safetensors"}),
      (Names{plain, "model.safetensors", "model.safetensors-00001-of-00003.safetensors",
             "model.safetensors-00003-of-00003.safetensors"}));
  EXPECT_EQ(
      kept(plain, {"model-gen00002-00001-of-000002.safetensors", "model-gen00002-00002-of-000002.safetensors"}),
      (Names{plain, "model.safetensors", "model-00001-of-000003.safetensors", "model-00003-of-000003.safetensors"}));
  EXPECT_EQ(
      kept(plain, {"model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"}),
      (Names{plain, "model.safetensors", "model-00000-of-00003.safetensors", "model-00002-of-00003.safetensors"}));
  EXPECT_EQ(
      kept(plain, {"model-00000-of-00001.safetensors", "model-00001-of-00001.safetensors"}),
      (Names{plain, "model.safetensors", "model-00000-of-00002.safetensors", "model-00002-of-00002.safetensors"}));
  EXPECT_EQ(kept(fp16, {"model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors"}),
            (Names{fp16, "model.fp16.safetensors", "model.fp16-00001-of-00003.safetensors",
                   "model.fp16-00003-of-00003.safetensors"}));
  EXPECT_EQ(kept(fp16, {"model-00001-of-00002.fp16.safetensors", "model-00002-of-00002.fp16.safetensors"}),
            (Names{fp16, "model.fp16.safetensors", "model-00001-of-00003.fp16.safetensors",
                   "model-00003-of-00003.fp16.safetensors"}));
}

TEST(ModelNames, MakesIndexNameOfVariants) {
  EXPECT_EQ(index_for("unet-00001-of-00002.fp16.safetensors"), "unet.safetensors.index.fp16.json");
  EXPECT_EQ(index_for("model.fp16-00001-of-00002.safetensors"), "model.safetensors.index.fp16.json");
  EXPECT_EQ(index_for("v1.x-00001-of-00002.safetensors"), "v1.x.safetensors.index.json");
  EXPECT_EQ(index_for("model.5.safetensors"), "model.5.safetensors.index.json");
}

TEST(ModelNames, PreferKnownModels) {
  const auto chosen = [](Names names) {
    std::string stems;
    for (const ModelFiles& model : models_of(names)) stems += model.stem + " ";
    return stems;
  };
  EXPECT_EQ(chosen({"consolidated.safetensors", "diffusion_pytorch_model.safetensors", "model.safetensors"}), "model ");
  EXPECT_EQ(chosen({"adapter_model.safetensors", "diffusion_pytorch_model.safetensors"}), "diffusion_pytorch_model ");
  EXPECT_EQ(chosen({"consolidated.safetensors.index.json", "model.safetensors"}), "model ");
  EXPECT_EQ(chosen({"adapter_model.safetensors", "consolidated.safetensors"}), "adapter_model consolidated ");
}

TEST(ShardSet, NamesMissingShards) {
  const auto whole = shard_set(Names{"m-00002-of-00002.safetensors", "m-00001-of-00002.safetensors"});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->stem, "m");
  EXPECT_EQ(whole->count, 2U);
  EXPECT_EQ(whole->names, (Names{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"}));
  EXPECT_EQ(whole->missing(), Names{});
  EXPECT_TRUE(whole->complete());
  const auto missing = [](const Names& names) {
    const auto set = shard_set(names);
    EXPECT_FALSE(set && set->complete());
    return set ? set->missing() : Names{"no set"};
  };
  EXPECT_EQ(missing({"m-gen00002-00002-of-00004.safetensors", "m-gen00002-00003-of-00004.safetensors"}),
            (Names{"m-gen00002-00001-of-00004.safetensors", "m-gen00002-00004-of-00004.safetensors"}));
  EXPECT_EQ(missing({"m-000001-of-000002.safetensors"}), Names{"m-000002-of-000002.safetensors"});
  EXPECT_EQ(missing({"m-00001-of-000002.safetensors"}), Names{"m-00002-of-000002.safetensors"});
  EXPECT_EQ(missing({"m-00000-of-00003.safetensors", "m-00003-of-00003.safetensors"}),
            (Names{"m-00001-of-00003.safetensors", "m-00002-of-00003.safetensors"}));
  EXPECT_EQ(missing({"m-00000-of-00003.safetensors", "m-00002-of-00003.safetensors"}),
            Names{"m-00001-of-00003.safetensors"});
  EXPECT_EQ(missing({"m-00002-of-00002.fp16.safetensors"}), Names{"m-00001-of-00002.fp16.safetensors"});
}

TEST(ShardSet, RefusesNamesOfOtherModels) {
  const std::string first = "m-00001-of-00003.safetensors";
  ASSERT_TRUE(shard_set(Names{first}));
  for (const char* other :
       {"n-00002-of-00003.safetensors", "m-00002-of-00004.safetensors", "m-gen00002-00002-of-00003.safetensors",
        "m-000002-of-00003.safetensors", "m-00001-of-00003.safetensors", "m-00004-of-00003.safetensors",
        "m.safetensors", "m-00002-of-00003.fp16.safetensors", "m.safetensors-00002-of-00003.safetensors", ""})
    EXPECT_FALSE(shard_set(Names{first, other})) << other;
  EXPECT_FALSE(shard_set(Names{}));
}

TEST(ShardSet, LimitsCount) {
  const auto set = shard_set(Names{"m-00001-of-99999.safetensors"});
  ASSERT_TRUE(set);
  EXPECT_EQ(set->missing().size(), 99'998U);
  for (const char* name : {"m-000001-of-100000.safetensors", "m-00001-of-00000.safetensors",
                           "m-18446744073709551617-of-18446744073709551617.safetensors"})
    EXPECT_FALSE(shard_set(Names{name})) << name;
}

TEST(ShardSet, SeparatesSets) {
  const std::vector<ShardSet> sets = shard_sets(Names{"b-00001-of-00002.safetensors", "a-00001-of-00001.safetensors",
                                                      "config.json", "b-00002-of-00002.safetensors", "b.safetensors"});
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[0].names.size(), 2U);
  EXPECT_EQ(sets[1].stem, "a");
}

}  // namespace
}  // namespace safetensors::format
