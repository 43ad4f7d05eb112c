// Recognizes low-rank adapters. An adapter is a pair of matrices: the first has the shape [rank, in, ...], the second
// [out, rank, ...]. Three families of names exist (lora_names.h). The names of a pair differ only in the words for the
// two matrices:
//   PEFT       base_model.model.layers.0.q_proj.lora_A.weight, also with the name of the adapter: lora_A.default.weight
//   diffusers  unet.down_blocks.0.attn1.to_q.lora.down.weight, also to_q_lora.down.weight or
//              to_q.lora_linear_layer.down.weight
//   kohya      lora_unet_down_blocks_0_attn1_to_q.lora_down.weight, and an `alpha` per module
#include <algorithm>
#include <set>

#include "check/recognize.h"
#include "format/checkpoint/lora_names.h"

namespace safetensors::check {
namespace {

bool is_digits(std::string_view text) noexcept {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The last part of the name of a module: "q_proj". If that is a number, the last two: "to_out.0". In the names of
// kohya, all parts are joined by `_`. There, it is the text after the last number between parts: "attn1_to_q".
std::string target_of(std::string_view module) {
  if (module.find('.') != std::string_view::npos) {
    std::size_t begin = module.rfind('.') + 1;
    if (is_digits(module.substr(begin)) && begin > 1) begin = module.rfind('.', begin - 2) + 1;
    return std::string(module.substr(begin));
  }
  std::size_t begin = 0;
  for (std::size_t at = module.find('_'); at != std::string_view::npos;) {
    const std::size_t next = module.find('_', at + 1);
    if (next == std::string_view::npos) break;
    if (is_digits(module.substr(at + 1, next - at - 1))) begin = next + 1;
    at = next;
  }
  return std::string(module.substr(begin));
}

// The alpha of the metadata that kohya's trainer writes, else that of the configuration.
std::string alpha_of(Metadata metadata, const ModelConfig& config) {
  constexpr std::size_t kMaxAlpha = 32;
  const auto noted = metadata.find("ss_network_alpha");
  std::string alpha = noted ? std::string(*noted) : config.lora_alpha;
  return alpha.size() > kMaxAlpha ? std::string() : alpha;
}

// Returns whether the shapes are those of a pair with a rank.
bool is_pair(const TensorInfo& first, const TensorInfo& second) noexcept {
  return first.shape.size() >= 2 && second.shape.size() >= 2 && first.nbytes() != 0 && second.nbytes() != 0 &&
         first.shape[0] == second.shape[1];
}

}  // namespace

void recognize_lora(ModelTensors& tensors, Metadata metadata, const ModelConfig& config,
                    std::vector<ModelFinding>& findings) {
  std::uint64_t modules = 0;
  std::uint64_t alphas = 0;
  std::set<std::uint64_t> ranks;
  std::set<std::string> targets;
  std::set<std::string_view> families;
  for (const auto& [name, entry] : tensors.all()) {
    for (const format::LoraNames& pair : format::kLoraNames) {
      const std::size_t at = name.rfind(pair.first);
      if (at == std::string_view::npos) continue;
      const std::string_view module = name.substr(0, at);
      const std::string rest = std::string(pair.second).append(name.substr(at + pair.first.size()));
      const ModelTensors::Entry* const second = tensors.find(module, rest);
      if (second == nullptr || !is_pair(*entry.info, *second->info)) continue;
      ++modules;
      if (ranks.size() < Modules::kMax) ranks.insert(entry.info->shape[0]);
      if (targets.size() < kMaxTargets) targets.insert(target_of(module));
      families.insert(pair.family);
      if (ModelTensors::Entry* const alpha = tensors.find(module, ".alpha")) {
        tensors.is_helper(alpha);
        ++alphas;
      }
      break;
    }
  }
  if (modules == 0) return;
  ModelFinding finding{.trait = ModelTrait::lora, .modules = modules, .alpha = alpha_of(metadata, config)};
  finding.ranks.assign(ranks.begin(), ranks.end());
  finding.targets.assign(targets.begin(), targets.end());
  for (const std::string_view family : families) (finding.evidence += finding.evidence.empty() ? "" : "; ") += family;
  if (alphas != 0) finding.evidence += ", `alpha` in " + std::to_string(alphas) + " tensors";
  findings.push_back(std::move(finding));
}

}  // namespace safetensors::check
