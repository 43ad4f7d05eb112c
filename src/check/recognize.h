// The parts of recognize(). Each part looks for one family of traits.
#pragma once

#include <safetensors/recognize.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::check {

inline constexpr std::size_t kMaxTargets = 64;  // names of modules of an adapter

// The tensors of a model by name, with the number of weights that each one stands for.
class ModelTensors {
 public:
  struct Entry {
    const TensorInfo* info;
    std::uint64_t weights;  // the elements, unless a part of recognize() found something else
    bool unknown = false;   // packs an unknown number of weights
  };

  explicit ModelTensors(Tensors tensors);

  // Returns the entry of `module` + `suffix`, or nullptr.
  [[nodiscard]] Entry* find(std::string_view module, std::string_view suffix = {});
  [[nodiscard]] std::map<std::string_view, Entry>& all() noexcept { return entries_; }
  // Says that a tensor, if it exists, holds no weights.
  void is_helper(Entry* entry) noexcept {
    if (entry != nullptr) entry->weights = 0;
  }
  // A shard of a model that was opened alone: a name such as model-00001-of-00002.safetensors.
  [[nodiscard]] bool incomplete() const noexcept { return incomplete_; }

 private:
  std::map<std::string_view, Entry> entries_;
  std::string key_;
  bool incomplete_ = false;
};

// The modules with one trait.
struct Modules {
  // Limit for each list. A real model has one or two entries.
  static constexpr std::size_t kMax = 8;

  std::uint64_t count = 0;
  std::set<std::uint64_t> bits;
  std::set<std::uint64_t> group_sizes;
  std::set<std::string> evidence;

  void add(std::uint64_t bits_per_weight, std::uint64_t weights_per_scale) {
    ++count;
    if (bits_per_weight != 0 && bits.size() < kMax) bits.insert(bits_per_weight);
    if (weights_per_scale != 0 && group_sizes.size() < kMax) group_sizes.insert(weights_per_scale);
  }
};

// Each appends the findings of its family.
void recognize_lora(ModelTensors& tensors, Metadata metadata, const ModelConfig& config,
                    std::vector<ModelFinding>& findings);
void recognize_quantized(ModelTensors& tensors, const ModelConfig& config, std::vector<ModelFinding>& findings);
void recognize_tied(ModelTensors& tensors, Metadata metadata, const ModelConfig& config,
                    std::vector<ModelFinding>& findings);

}  // namespace safetensors::check
