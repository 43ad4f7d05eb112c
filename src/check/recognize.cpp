// Recognizes what kind of model a set of tensors is. All tensors are put into a table by name. Each part of the search
// then looks for names with a certain end, and for the tensors that must belong to them. It says how many weights each
// packed tensor stands for. The sum of these numbers gives the bits per weight.
#include "check/recognize.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "format/checkpoint/shard_index.h"

namespace safetensors {
namespace check {
namespace {

// Names of embeddings in models with a head for a vocabulary, as transformers writes them, and the head's name. A model
// without a head has no prefix: `embed_tokens.weight`. Other models have a head that is not a copy of the embedding, so
// their names are not here.
struct TiedNames {
  std::string_view embedding;
  std::string_view head;
};
constexpr TiedNames kTiedNames[] = {
    {"model.embed_tokens.weight", "lm_head.weight"},
    {"model.language_model.embed_tokens.weight", "lm_head.weight"},
    {"language_model.model.embed_tokens.weight", "language_model.lm_head.weight"},
    {"model.decoder.embed_tokens.weight", "lm_head.weight"},
    {"transformer.wte.weight", "lm_head.weight"},
    {"transformer.word_embeddings.weight", "lm_head.weight"},
    {"gpt_neox.embed_in.weight", "embed_out.weight"},
};

// Sums that no file can reach stay at the largest number.
void add_to(std::uint64_t& sum, std::uint64_t number) noexcept {
  if (!base::add(sum, number, sum)) sum = UINT64_MAX;
}

// Names, in the metadata, of tensors that are not stored because they equal a stored tensor. This is how
// save_model() of the Python package notes them.
ModelFinding tied_by_metadata(ModelTensors& tensors, Metadata metadata) {
  ModelFinding finding{.trait = ModelTrait::tied};
  for (const auto& [name, stored] : metadata) {
    if (tensors.find(name) != nullptr || tensors.find(stored) == nullptr) continue;
    if (finding.modules++ == 0)
      finding.evidence = "the metadata names `" + std::string(name) + "`, stored as `" + std::string(stored) + "`";
  }
  return finding;
}

// Counts the routed experts. The tensors come sorted by name, so those of one expert follow each other.
class ExpertCount {
 public:
  void add(std::string_view name, const TensorInfo& info) {
    constexpr std::string_view kPart = ".experts.";
    const std::size_t found = name.find(kPart);
    if (found == std::string_view::npos) return;
    const std::size_t begin = found + kPart.size();
    const std::size_t end = name.find('.', begin);
    const std::string_view part = name.substr(begin, end - begin);
    const bool numbered = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (!numbered) {
      // The weights of all experts. Other tensors, such as biases, and weights of two dimensions do not show the
      // number.
      if (info.shape.size() >= 3) take(info.shape[0]);
      return;
    }
    if (name.substr(0, found) != layer_) finish();
    layer_ = name.substr(0, found);
    if (part != expert_) ++in_layer_;
    expert_ = part;
  }
  // The number per layer, or 0 if layers have different numbers.
  std::uint64_t result() {
    finish();
    return same_ ? experts_ : 0;
  }

 private:
  void finish() {
    if (in_layer_ != 0) take(in_layer_);
    in_layer_ = 0;
    expert_ = {};
  }
  void take(std::uint64_t experts) {
    if (experts_ != 0 && experts_ != experts) same_ = false;
    experts_ = experts;
    if (experts == 0) same_ = false;
  }

  std::string_view layer_;
  std::string_view expert_;
  std::uint64_t in_layer_ = 0;
  std::uint64_t experts_ = 0;
  bool same_ = true;
};

Recognition sum_up(ModelTensors& tensors) {
  Recognition result;
  ExpertCount experts;
  for (const auto& [name, entry] : tensors.all()) {
    add_to(result.nbytes, entry.info->nbytes());
    add_to(result.weights, entry.weights);
    if (entry.unknown) ++result.unknown;
    if (entry.weights == 0 || name.find(".experts.") == std::string_view::npos) continue;
    add_to(result.expert_weights, entry.weights);
    experts.add(name, *entry.info);
  }
  result.experts = tensors.incomplete() ? 0 : experts.result();
  return result;
}

}  // namespace

ModelTensors::ModelTensors(Tensors tensors) {
  std::set<std::string> files;
  std::string last;  // the tensors of a file follow each other
  std::uint64_t expected = 0;
  for (const Tensor& tensor : tensors) {
    const bool unknown = tensor.dtype() == Dtype::UNKNOWN;
    entries_.emplace(tensor.name(), Entry{&tensor.info(), unknown ? 0 : tensor.numel(), unknown});
    const File file = tensor.file();
    const std::string& path = file.path();
    if (path == last) continue;
    last = path;
    if (!files.insert(path).second) continue;
    const auto shard = format::parse_numbered_shard(std::string_view(path).substr(path.rfind('/') + 1));
    std::uint64_t count = 0;
    for (const char digit : shard ? shard->count : std::string_view()) {
      count = count > UINT32_MAX ? count : count * 10 + static_cast<std::uint64_t>(digit - '0');
    }
    expected = std::max(expected, count);
  }
  incomplete_ = expected > files.size();
}

ModelTensors::Entry* ModelTensors::find(std::string_view module, std::string_view suffix) {
  key_.assign(module).append(suffix);
  const auto found = entries_.find(key_);
  return found == entries_.end() ? nullptr : &found->second;
}

void recognize_tied(ModelTensors& tensors, Metadata metadata, const ModelConfig& config,
                    std::vector<ModelFinding>& findings) {
  ModelFinding noted = tied_by_metadata(tensors, metadata);
  if (noted.modules != 0) return findings.push_back(std::move(noted));
  // An adapter has only some tensors of its model, and so has one shard of several.
  const bool adapter =
      std::ranges::any_of(findings, [](const ModelFinding& finding) { return finding.trait == ModelTrait::lora; });
  if (adapter || tensors.incomplete() || config.tied_embeddings == false) return;
  for (const TiedNames& names : kTiedNames) {
    if (tensors.find(names.embedding) == nullptr || tensors.find(names.head) != nullptr) continue;
    const std::string known = config.tied_embeddings == true ? "the configuration has tie_word_embeddings"
                                                             : "so the output layer is either the embedding or missing";
    findings.push_back(
        {.trait = ModelTrait::tied,
         .modules = 1,
         .evidence = "`" + std::string(names.embedding) + "` without `" + std::string(names.head) + "`; " + known});
    return;
  }
}

}  // namespace check

inline namespace v0 {

std::string_view to_string(ModelTrait trait) noexcept {
  static constexpr std::string_view kNames[] = {"lora", "gptq",  "awq", "compressed_tensors", "bitsandbytes", "fp8",
                                                "mx",   "nvfp4", "tied"};
  const auto index = static_cast<std::size_t>(trait);
  return index < std::size(kNames) ? kNames[index] : "?";
}

Result<Recognition> recognize(Tensors tensors, Metadata metadata, const ModelConfig& config) noexcept {
  return base::guarded([&]() -> Result<Recognition> {
    check::ModelTensors model(tensors);
    std::vector<ModelFinding> findings;
    check::recognize_lora(model, metadata, config, findings);
    check::recognize_quantized(model, config, findings);
    check::recognize_tied(model, metadata, config, findings);
    std::ranges::stable_sort(findings, {}, &ModelFinding::trait);
    Recognition result = check::sum_up(model);
    result.findings = std::move(findings);
    return result;
  });
}

}  // namespace v0
}  // namespace safetensors
