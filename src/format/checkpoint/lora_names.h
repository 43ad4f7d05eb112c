// How low-rank adapters name their matrices.
#pragma once

#include <string_view>

namespace safetensors::format {

// The names of the two matrices of a pair differ only in these words.
struct LoraNames {
  std::string_view first;   // the words for the matrix [rank, in]
  std::string_view second;  // the words for the matrix [out, rank]
  std::string_view family;
};
// The longer of two similar words comes first.
inline constexpr LoraNames kLoraNames[] = {
    {".lora_A.", ".lora_B.", "PEFT: `lora_A`, `lora_B`"},
    {".lora_embedding_A", ".lora_embedding_B", "PEFT: `lora_embedding_A`, `lora_embedding_B`"},
    {".lora_down.weight", ".lora_up.weight", "kohya: `lora_down`, `lora_up`"},
    {".lora_linear_layer.down.weight", ".lora_linear_layer.up.weight", "diffusers: `lora.down`, `lora.up`"},
    {".lora.down.weight", ".lora.up.weight", "diffusers: `lora.down`, `lora.up`"},
    {"_lora.down.weight", "_lora.up.weight", "diffusers: `lora.down`, `lora.up`"},
};

}  // namespace safetensors::format
