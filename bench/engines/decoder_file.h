// Writes a checkpoint with the layout of a decoder: embeddings, and per layer seven matrices and two norms, all of
// BF16.
#pragma once

#include <safetensors/safetensors.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "../bench.h"

namespace engines {

// The file has about this many bytes, in 36 layers, that is 326 tensors.
inline void write_decoder(const std::string& path, std::uint64_t bytes) {
  namespace st = safetensors;
  constexpr int kLayers = 36;
  // Parameters of a layer: 2 x width^2 + 2 x width x width / 4 + 3 x width x 3 x width; the vocabulary has 16 x width
  // rows.
  const double per_square = kLayers * (2 + 0.5 + 9) + 16;
  const auto width = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(bytes) / 2 / per_square)) / 8 * 8;
  st::HeaderBuilder builder;
  const auto add = [&](const std::string& name, st::Shape shape) {
    bench::must(builder.add(name, st::Dtype::BF16, shape));
  };
  add("model.embed_tokens.weight", {16 * width, width});
  for (int i = 0; i < kLayers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", {width});
    add(layer + "mlp.down_proj.weight", {width, 3 * width});
    add(layer + "mlp.gate_proj.weight", {3 * width, width});
    add(layer + "mlp.up_proj.weight", {3 * width, width});
    add(layer + "post_attention_layernorm.weight", {width});
    add(layer + "self_attn.k_proj.weight", {width / 4, width});
    add(layer + "self_attn.o_proj.weight", {width, width});
    add(layer + "self_attn.q_proj.weight", {width, width});
    add(layer + "self_attn.v_proj.weight", {width / 4, width});
  }
  add("model.norm.weight", {width});
  const st::Header header = bench::must(builder.build());
  st::Writer writer = bench::must(st::Writer::create(path, header, {.durability = st::Durability::none}));
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> block(1 << 17);
  for (std::uint64_t& word : block) word = random();
  for (const st::TensorInfo& tensor : header.tensors()) {
    for (std::uint64_t at = 0; at < tensor.nbytes(); at += block.size() * 8) {
      const std::uint64_t part = std::min<std::uint64_t>(block.size() * 8, tensor.nbytes() - at);
      bench::must(writer.write(tensor.name, at, std::as_bytes(std::span(block)).first(part)));
    }
  }
  bench::must(writer.commit());
}

}  // namespace engines
