// recognize(): which models are recognized, with which numbers, and that plain models are not.
#include <safetensors/recognize.h>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/checkpoint_support.h"
#include "support/file_support.h"

namespace safetensors::test {
namespace {

using Numbers = std::vector<std::uint64_t>;

struct Shaped {
  std::string name;
  Dtype dtype;
  Numbers shape;
};

// A file of zeros with these tensors.
File model_of(const std::vector<Shaped>& tensors, const MetadataPairs& metadata = {}) {
  HeaderBuilder builder;
  for (const Shaped& tensor : tensors) EXPECT_TRUE(succeeds(builder.add(tensor.name, tensor.dtype, tensor.shape)));
  for (const auto& [key, value] : metadata) EXPECT_TRUE(succeeds(builder.metadata(key, value)));
  const Header header = builder.build().value();
  const auto bytes = std::make_shared<const std::string>(
      file_bytes(header.text().value(), std::string(static_cast<std::size_t>(header.data_bytes()), '\0')));
  return File::from_memory(std::as_bytes(std::span(*bytes)), bytes).value();
}

Recognition recognized(const std::vector<Shaped>& tensors, const MetadataPairs& metadata = {},
                       const ModelConfig& config = {}) {
  const File file = model_of(tensors, metadata);
  return recognize(file.tensors(), file.metadata(), config).value();
}

// The only finding.
ModelFinding only(const Recognition& found) {
  EXPECT_EQ(found.findings.size(), 1U);
  return found.findings.empty() ? ModelFinding() : found.findings[0];
}

TEST(Recognize, PlainModels) {
  const std::vector<Shaped> plain[] = {
      {},
      {{"model.embed_tokens.weight", Dtype::BF16, {8, 4}}, {"lm_head.weight", Dtype::BF16, {8, 4}}},
      {{"embeddings.word_embeddings.weight", Dtype::F32, {8, 4}}, {"pooler.dense.weight", Dtype::F32, {4, 4}}},
      {{"embed_tokens.weight", Dtype::F32, {8, 4}}, {"norm.weight", Dtype::F32, {4}}},
      {{"alpha", Dtype::F32, {}}, {"scales", Dtype::F32, {4}}, {"blocks", Dtype::U8, {4, 16}}},
      {{"a.qweight", Dtype::I32, {4, 8}}, {"a.scales", Dtype::F16, {1, 8}}},
      {{"a.qweight", Dtype::F32, {4, 8}}, {"a.scales", Dtype::F16, {1, 8}}, {"a.qzeros", Dtype::I32, {1, 1}}},
      {{"a.qweight", Dtype::I32, {4, 9}}, {"a.scales", Dtype::F16, {1, 8}}, {"a.qzeros", Dtype::I32, {1, 1}}},
      {{"a.weight", Dtype::F32, {4, 4}}, {"a.weight_scale", Dtype::F32, {4, 1}}},
      {{"a.weight", Dtype::F8_E4M3, {4, 4}}, {"b.weight", Dtype::F8_E4M3, {4, 4}}},
      {{"a.weight", Dtype::F8_E4M3, {4, 4}}, {"a.weight_scale", Dtype::F32, {3}}},
      {{"a.lora_A.weight", Dtype::F32, {2, 4}}, {"a.lora_B.weight", Dtype::F32, {4, 3}}},
      {{"a.lora_A.weight", Dtype::F32, {2, 4}}},
      {{"a.weight", Dtype::U8, {8, 1}}, {"a.weight.absmax", Dtype::F32, {1}}},
      {{"norm.blocks", Dtype::U8, {2, 15}}, {"norm.scales", Dtype::U8, {2}}},
      {{"a.qweight", Dtype::I32, {0, 0}}, {"a.scales", Dtype::F16, {0, 0}}, {"a.qzeros", Dtype::I32, {0, 0}}},
  };
  for (const std::vector<Shaped>& tensors : plain) {
    const Recognition found = recognized(tensors);
    EXPECT_EQ(found.findings.size(), 0U) << (found.findings.empty() ? "" : found.findings[0].evidence);
    std::uint64_t elements = 0;
    for (const Shaped& tensor : tensors) elements += numel(tensor.shape);
    EXPECT_EQ(found.weights, elements);
    EXPECT_EQ(found.unknown, 0U);
  }
}

TEST(Recognize, BitsPerWeightOfPlainModel) {
  const Recognition found = recognized({{"a", Dtype::F32, {3}}, {"b", Dtype::BF16, {1}}});
  EXPECT_EQ(found.nbytes, 14U);
  EXPECT_EQ(found.weights, 4U);
  EXPECT_EQ(found.bits_per_weight(), 28.0);
  EXPECT_EQ(recognized({}).bits_per_weight(), std::nullopt);
}

TEST(Recognize, PeftAdapter) {
  ModelConfig config;
  config.lora_alpha = "16";
  const std::string layer = "base_model.model.model.layers.0.self_attn.";
  const Recognition found = recognized({{layer + "q_proj.lora_A.weight", Dtype::F32, {8, 32}},
                                        {layer + "q_proj.lora_B.weight", Dtype::F32, {32, 8}},
                                        {layer + "v_proj.lora_A.default.weight", Dtype::F32, {4, 32}},
                                        {layer + "v_proj.lora_B.default.weight", Dtype::F32, {16, 4}},
                                        {"model.embed_tokens.lora_embedding_A", Dtype::F32, {8, 100}},
                                        {"model.embed_tokens.lora_embedding_B", Dtype::F32, {32, 8}}},
                                       {}, config);
  const ModelFinding lora = only(found);
  EXPECT_EQ(lora.trait, ModelTrait::lora);
  EXPECT_EQ(lora.modules, 3U);
  EXPECT_EQ(lora.ranks, (Numbers{4, 8}));
  EXPECT_EQ(lora.alpha, "16");
  EXPECT_EQ(lora.targets, (std::vector<std::string>{"embed_tokens", "q_proj", "v_proj"}));
}

TEST(Recognize, KohyaAdapter) {
  const std::string unet = "lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_attn1_to_out_0";
  const std::string text = "lora_te_text_model_encoder_layers_11_self_attn_q_proj";
  const Recognition found = recognized({{unet + ".lora_down.weight", Dtype::F16, {4, 32, 1, 1}},
                                        {unet + ".lora_up.weight", Dtype::F16, {32, 4, 1, 1}},
                                        {unet + ".alpha", Dtype::F16, {}},
                                        {text + ".lora_down.weight", Dtype::F16, {4, 32}},
                                        {text + ".lora_up.weight", Dtype::F16, {32, 4}},
                                        {text + ".alpha", Dtype::F16, {}}},
                                       {{"ss_network_alpha", "2.0"}});
  const ModelFinding lora = only(found);
  EXPECT_EQ(lora.modules, 2U);
  EXPECT_EQ(lora.ranks, Numbers{4});
  EXPECT_EQ(lora.alpha, "2.0");
  EXPECT_EQ(lora.targets, (std::vector<std::string>{"attn1_to_out_0", "self_attn_q_proj"}));
  EXPECT_EQ(lora.evidence, "kohya: `lora_down`, `lora_up`, `alpha` in 2 tensors");
  EXPECT_EQ(found.weights, 4U * 32 * 4);
}

TEST(Recognize, DiffusersAdapter) {
  const std::string block = "unet.down_blocks.0.transformer_blocks.0.attn1.";
  const ModelFinding lora = only(recognized({{block + "to_q.lora.down.weight", Dtype::F32, {4, 32}},
                                             {block + "to_q.lora.up.weight", Dtype::F32, {32, 4}},
                                             {block + "to_out.0.lora.down.weight", Dtype::F32, {4, 32}},
                                             {block + "to_out.0.lora.up.weight", Dtype::F32, {32, 4}},
                                             {block + "processor.to_k_lora.down.weight", Dtype::F32, {4, 32}},
                                             {block + "processor.to_k_lora.up.weight", Dtype::F32, {32, 4}}}));
  EXPECT_EQ(lora.modules, 3U);
  EXPECT_EQ(lora.targets, (std::vector<std::string>{"to_k", "to_out.0", "to_q"}));
}

TEST(Recognize, Gptq) {
  // 256 inputs, 64 outputs, groups of 128.
  for (const std::uint64_t bits : Numbers{2, 3, 4, 8}) {
    const Recognition found = recognized({{"m.qweight", Dtype::I32, {256 * bits / 32, 64}},
                                          {"m.qzeros", Dtype::I32, {2, 64 * bits / 32}},
                                          {"m.scales", Dtype::F16, {2, 64}},
                                          {"m.g_idx", Dtype::I32, {256}}});
    const ModelFinding gptq = only(found);
    EXPECT_EQ(gptq.trait, ModelTrait::gptq);
    EXPECT_EQ(gptq.bits, Numbers{bits});
    EXPECT_EQ(gptq.group_sizes, Numbers{128});
    EXPECT_EQ(found.weights, 256U * 64);
    EXPECT_GT(found.bits_per_weight().value_or(0), static_cast<double>(bits));
  }
}

TEST(Recognize, Awq) {
  const Recognition found = recognized(
      {{"m.qweight", Dtype::I32, {256, 8}}, {"m.qzeros", Dtype::I32, {2, 8}}, {"m.scales", Dtype::F16, {2, 64}}});
  const ModelFinding awq = only(found);
  EXPECT_EQ(awq.trait, ModelTrait::awq);
  EXPECT_EQ(awq.bits, Numbers{4});
  EXPECT_EQ(awq.group_sizes, Numbers{128});
  EXPECT_EQ(found.weights, 256U * 64);
}

TEST(Recognize, CompressedTensorsNeedConfiguration) {
  const std::vector<Shaped> tensors = {{"m.weight_packed", Dtype::I32, {64, 32}},
                                       {"m.weight_scale", Dtype::BF16, {64, 2}},
                                       {"m.weight_shape", Dtype::I64, {2}}};
  const Recognition without = recognized(tensors);
  EXPECT_EQ(only(without).trait, ModelTrait::compressed_tensors);
  EXPECT_EQ(only(without).bits, Numbers{});
  EXPECT_EQ(without.unknown, 1U);
  EXPECT_EQ(without.bits_per_weight(), std::nullopt);
  ModelConfig config;
  config.bits = 4;
  const Recognition with = recognized(tensors, {}, config);
  EXPECT_EQ(only(with).bits, Numbers{4});
  EXPECT_EQ(only(with).group_sizes, Numbers{128});
  EXPECT_EQ(with.weights, 64U * 256);
  EXPECT_EQ(with.unknown, 0U);
}

TEST(Recognize, CompressedTensorsOfOtherForms) {
  const Recognition integers =
      recognized({{"m.weight", Dtype::I8, {64, 32}}, {"m.weight_scale", Dtype::BF16, {64, 1}}});
  EXPECT_EQ(only(integers).bits, Numbers{8});
  EXPECT_EQ(integers.weights, 64U * 32);
  const Recognition floats = recognized({{"m.weight_packed", Dtype::U8, {64, 16}},
                                         {"m.weight_scale", Dtype::F8_E4M3, {64, 2}},
                                         {"m.weight_global_scale", Dtype::F32, {1}}});
  EXPECT_EQ(only(floats).bits, Numbers{4});
  EXPECT_EQ(only(floats).group_sizes, Numbers{16});
  EXPECT_EQ(floats.weights, 64U * 32);
}

TEST(Recognize, BitsAndBytes) {
  const Recognition four = recognized({{"m.weight", Dtype::U8, {1024, 1}},
                                       {"m.weight.absmax", Dtype::U8, {32}},
                                       {"m.weight.quant_map", Dtype::F32, {16}},
                                       {"m.weight.nested_absmax", Dtype::F32, {1}},
                                       {"m.weight.nested_quant_map", Dtype::F32, {256}},
                                       {"m.weight.quant_state.bitsandbytes__nf4", Dtype::U8, {80}}});
  EXPECT_EQ(only(four).trait, ModelTrait::bitsandbytes);
  EXPECT_EQ(only(four).bits, Numbers{4});
  EXPECT_EQ(only(four).group_sizes, Numbers{64});
  EXPECT_EQ(only(four).evidence, "nf4: `absmax`, `quant_map`, with quantized scales");
  EXPECT_EQ(four.weights, 2048U);
  const Recognition eight = recognized({{"m.weight", Dtype::I8, {64, 32}}, {"m.SCB", Dtype::F32, {64}}});
  EXPECT_EQ(only(eight).bits, Numbers{8});
  EXPECT_EQ(eight.weights, 2048U);
}

TEST(Recognize, Fp8) {
  const auto evidence = [](const Numbers& scale, const std::string& suffix) {
    const Recognition found =
        recognized({{"m.weight", Dtype::F8_E4M3, {576, 256}}, {"m.weight" + suffix, Dtype::F32, scale}});
    EXPECT_EQ(only(found).trait, ModelTrait::fp8);
    EXPECT_EQ(found.weights, 576U * 256);
    return only(found).evidence;
  };
  EXPECT_EQ(evidence({5, 2}, "_scale_inv"), "F8_E4M3, one `scale_inv` per block of 128 x 128");
  EXPECT_EQ(evidence({576, 1}, "_scale"), "F8_E4M3, one `scale` per row");
  EXPECT_EQ(evidence({}, "_scale"), "F8_E4M3, one `scale` per tensor");
}

TEST(Recognize, Microscaling) {
  const Recognition blocks = recognized({{"e.gate_up_proj_blocks", Dtype::U8, {4, 64, 3, 16}},
                                         {"e.gate_up_proj_scales", Dtype::U8, {4, 64, 3}},
                                         {"e.gate_up_proj_bias", Dtype::BF16, {4, 64}}});
  EXPECT_EQ(only(blocks).trait, ModelTrait::mx);
  EXPECT_EQ(only(blocks).bits, Numbers{4});
  EXPECT_EQ(blocks.weights, 4U * 64 * 96 + 256);
  const Recognition typed =
      recognized({{"m.weight", Dtype::F4, {64, 64}}, {"m.weight_scale", Dtype::F8_E8M0, {64, 2}}});
  EXPECT_EQ(only(typed).evidence, "MX: F4 with scales in F8_E8M0");
  EXPECT_EQ(typed.bits_per_weight(), 4.25);
}

TEST(Recognize, Nvfp4) {
  const Recognition found = recognized({{"m.weight", Dtype::U8, {64, 32}},
                                        {"m.weight_scale", Dtype::F8_E4M3, {64, 4}},
                                        {"m.weight_scale_2", Dtype::F32, {}}});
  EXPECT_EQ(only(found).trait, ModelTrait::nvfp4);
  EXPECT_EQ(found.weights, 64U * 64);
}

TEST(Recognize, TiedWeights) {
  const std::vector<Shaped> tensors = {{"model.embed_tokens.weight", Dtype::F32, {8, 4}},
                                       {"model.norm.weight", Dtype::F32, {4}}};
  EXPECT_EQ(only(recognized(tensors)).evidence,
            "`model.embed_tokens.weight` without `lm_head.weight`; so the output layer is either the embedding or "
            "missing");
  ModelConfig config;
  config.tied_embeddings = true;
  EXPECT_EQ(only(recognized(tensors, {}, config)).evidence,
            "`model.embed_tokens.weight` without `lm_head.weight`; the configuration has tie_word_embeddings");
  config.tied_embeddings = false;
  EXPECT_TRUE(recognized(tensors, {}, config).findings.empty());
  EXPECT_EQ(only(recognized({{"a", Dtype::F32, {1}}}, {{"b", "a"}, {"c", "a"}, {"format", "pt"}})).modules, 2U);
}

TEST(Recognize, OneShardIsNotTied) {
  const TemporaryDirectory directory;
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";
  put(directory / first, u8_file({{"model.embed_tokens.weight", "ab"}}));
  put(directory / second, u8_file({{"model.norm.weight", "ab"}}));
  const Checkpoint one = Checkpoint::open(directory / first).value();
  EXPECT_TRUE(recognize(one.tensors(), one.metadata()).value().findings.empty());
  const Checkpoint both = Checkpoint::open({directory / first, directory / second}).value();
  EXPECT_EQ(recognize(both.tensors(), both.metadata()).value().findings.size(), 1U);
}

TEST(ModelConfig, ReadsFacts) {
  const ModelConfig config =
      parse_model_config(R"({"a": [1, {"r": 3}], "tie_word_embeddings": true, "r": 8, "lora_alpha": 16.5,
        "use_rslora": true, "alpha_pattern": {"a.q": 4, "b": "5", "a\\.v": 2.5, ")" +
                         std::string(257, 'x') + R"(": 1},
        "target_modules": ["v_proj", "q_proj", 1], "quantization_config": {"quant_method": "gptq", "bits": 4,
        "group_size": 128, "config_groups": {"g": {"weights": {"num_bits": 3, "x": {}}}}, "y": null}, "z": "\u00e4"})")
          .value();
  EXPECT_EQ(config.tied_embeddings, true);
  EXPECT_EQ(config.lora_rank, 8U);
  EXPECT_EQ(config.lora_alpha, "16.5");
  EXPECT_EQ(config.lora_targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(config.lora_rank_stabilized, true);
  EXPECT_EQ(config.lora_alphas, (std::vector<std::pair<std::string, std::string>>{{"a.q", "4"}, {"a\\.v", "2.5"}}));
  EXPECT_EQ(config.quantization, "gptq");
  EXPECT_EQ(config.bits, 3U);
  EXPECT_EQ(config.group_size, 128U);
}

TEST(ModelConfig, SkipsOtherTypes) {
  const ModelConfig config = parse_model_config(R"({"r": -8, "lora_alpha": "16", "tie_word_embeddings": 1,
        "target_modules": "all-linear", "use_rslora": 1, "alpha_pattern": ["a"], "quantization_config": {"bits": 99999999999999999999, "config_groups": {"g": 1}}})")
                                 .value();
  EXPECT_EQ(config.lora_rank, std::nullopt);
  EXPECT_EQ(config.lora_alpha, "");
  EXPECT_EQ(config.tied_embeddings, std::nullopt);
  EXPECT_EQ(config.bits, std::nullopt);
  EXPECT_TRUE(config.lora_targets.empty());
  EXPECT_EQ(config.lora_rank_stabilized, std::nullopt);
  EXPECT_TRUE(config.lora_alphas.empty());
}

TEST(ModelConfig, ReadsNumbersOfModels) {
  const ModelConfig config =
      parse_model_config(
          R"({"architectures": ["A", "B"], "model_type": "a", "text_config": {"n_layer": 9, "n_ctx": 4096},
        "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": null,
        "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2})")
          .value();
  EXPECT_EQ(config.architecture, "A");
  EXPECT_EQ(config.layers, 2U);
  EXPECT_EQ(config.heads, 32U);
  EXPECT_EQ(config.key_value_heads, 8U);
  EXPECT_EQ(config.context, 4096U);
  EXPECT_EQ(config.experts, 64U);
  EXPECT_EQ(config.experts_per_token, 6U);
  EXPECT_EQ(config.shared_experts, 2U);
  EXPECT_TRUE(config.ignored.empty());
  EXPECT_EQ(parse_model_config(R"({"_class_name": "U", "model_type": "a"})").value().architecture, "U");
  EXPECT_EQ(parse_model_config(R"({"model_type": "a", "architectures": []})").value().architecture, "a");
}

TEST(ModelConfig, CutsTextsBetweenCharacters) {
  const std::string name(62, 'x');
  for (const std::string_view character : {"\u00e9", "\u20ac", "\U0001f600"}) {
    const std::string_view fits = character.size() == 2 ? character : "";
    const ModelConfig config =
        parse_model_config(R"({"_class_name": ")" + name + std::string(character) + R"(!"})").value();
    EXPECT_EQ(config.architecture, name + std::string(fits));
  }
}

TEST(ModelConfig, NamesIgnoredMembers) {
  const ModelConfig config = parse_model_config(R"({"architectures": {"x": [1]}, "model_type": 1, "n_layer": "2",
        "n_head": -1, "n_ctx": 1e3, "num_experts": 1234567890123456789, "moe_topk": [2], "moe_num_experts": 1.0,
        "num_heads": true, "n_layers": {}})")
                                 .value();
  EXPECT_EQ(config.layers, std::nullopt);
  EXPECT_EQ(config.experts, std::nullopt);
  EXPECT_EQ(config.architecture, "");
  EXPECT_EQ(config.ignored, (std::vector<std::string>{"architectures", "model_type", "n_layer", "n_head", "n_ctx",
                                                      "num_experts", "moe_topk", "moe_num_experts"}));
}

TEST(Recognize, CountsExperts) {
  std::vector<Shaped> tensors = {{"l.0.mlp.shared_experts.up", Dtype::F16, {4, 4}}, {"norm", Dtype::F16, {4}}};
  for (const char* const layer : {"l.0.", "l.1."}) {
    for (int expert = 0; expert < 11; ++expert) {
      const std::string begin = layer + ("mlp.experts." + std::to_string(expert));
      tensors.push_back({begin + ".up.weight", Dtype::F16, {4, 4}});
      tensors.push_back({begin + ".down.weight", Dtype::F16, {4, 4}});
    }
  }
  const Recognition found = recognized(tensors);
  EXPECT_EQ(found.experts, 11U);
  EXPECT_EQ(found.expert_weights, 2U * 11 * 2 * 16);
  EXPECT_EQ(found.weights, found.expert_weights + 20);
  tensors.push_back({"l.1.mlp.experts.11.up.weight", Dtype::F16, {4, 4}});
  EXPECT_EQ(recognized(tensors).experts, 0U);  // layers with different numbers

  const std::vector<Shaped> fused = {{"l.0.experts.up", Dtype::F16, {8, 4, 4}},
                                     {"l.0.experts.bias", Dtype::F16, {8, 4}}};
  EXPECT_EQ(recognized(fused).experts, 8U);
  // Two dimensions do not show where an expert ends, and a bias has no more.
  EXPECT_EQ(recognized({{"l.0.experts.mlp.w1", Dtype::F16, {32, 4}}}).experts, 0U);
  EXPECT_EQ(recognized({{"l.experts.gate", Dtype::F16, {8}}}).experts, 0U);
  EXPECT_EQ(recognized({{"experts.0.up", Dtype::F16, {8, 4}}, {"a.experts", Dtype::F16, {2, 2}}}).expert_weights, 0U);
}

TEST(ModelConfig, RefusesBadJson) {
  for (const char* const text : {"", "[]", "{", "{\"r\": }", "{\"r\": 1} x", "{\"quantization_config\": {\"bits\": 4}",
                                 "{\"target_modules\": [\"a\"", "{\"a\": \"\xff\"}"}) {
    EXPECT_FALSE(parse_model_config(text)) << text;
  }
  const std::string deep = "{\"quantization_config\": {\"a\": " + std::string(200, '[') + std::string(200, ']') + "}}";
  EXPECT_EQ(parse_model_config(deep).error().code, Errc::json_depth);
}

TEST(ModelConfig, ReadsFolder) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(succeeds(read_model_config(directory.path())));
  put(directory / "config.json", R"({"tie_word_embeddings": true})");
  put(directory / "adapter_config.json", R"({"r": 4})");
  const ModelConfig config = read_model_config(directory.path()).value();
  EXPECT_EQ(config.tied_embeddings, true);
  EXPECT_EQ(config.lora_rank, 4U);
  put(directory / "config.json", "{");
  const Error error = read_model_config(directory.path()).error();
  EXPECT_EQ(error.path, directory / "config.json");
  EXPECT_EQ(error.offset, 1U);
}

}  // namespace
}  // namespace safetensors::test
