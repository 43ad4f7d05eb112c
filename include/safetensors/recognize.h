/// @file
/// Recognizes adapters, quantized weights and tied weights by the names, dtypes and shapes of tensors.
///
/// Thread-safety: any number of threads may call the functions of this header at the same time.
#pragma once

#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/path.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// The kinds of models that recognize() knows.
enum class ModelTrait : std::uint8_t {
  lora,                ///< low-rank adapters: pairs of matrices, in the names of PEFT, diffusers or kohya
  gptq,                ///< GPTQ: `qweight`, `qzeros`, `scales` and usually `g_idx`
  awq,                 ///< AWQ: `qweight`, `qzeros` and `scales`
  compressed_tensors,  ///< compressed-tensors: `weight_packed`, or integers with a `weight_scale`
  bitsandbytes,        ///< bitsandbytes: `absmax` and `quant_map` (4 bits), or `SCB` (8 bits)
  fp8,                 ///< F8 weights with scales per tensor, per channel or per block
  mx,                  ///< microscaling: blocks of 32 elements that share a power of two
  nvfp4,               ///< F4 weights with an F8_E4M3 scale per block of 16
  tied,                ///< a tensor of the model is stored once under one of its names
};

/// Returns the word for a trait, such as "lora" or "compressed_tensors". The memory is static.
[[nodiscard]] SAFETENSORS_API std::string_view to_string(ModelTrait trait) noexcept;

/// Facts from a `config.json` or an `adapter_config.json`. A wrong file gives wrong facts: nothing checks them. Texts
/// may hold any characters: print them with printable().
struct ModelConfig {
  std::string quantization = {};                            ///< `quant_method`, such as "gptq"; empty if there is none
  std::optional<std::uint64_t> bits = std::nullopt;         ///< bits per weight of the quantization
  std::optional<std::uint64_t> group_size = std::nullopt;   ///< weights per scale
  std::optional<bool> tied_embeddings = std::nullopt;       ///< `tie_word_embeddings`
  std::optional<std::uint64_t> lora_rank = std::nullopt;    ///< `r`
  std::string lora_alpha = {};                              ///< `lora_alpha`, as it is written; empty if there is none
  std::vector<std::string> lora_targets = {};               ///< `target_modules`, sorted
  std::optional<bool> lora_rank_stabilized = std::nullopt;  ///< `use_rslora`: the scale is alpha / sqrt(rank)
  /// `alpha_pattern`: names of modules, or regular expressions for the ends of names, each with its alpha as it is
  /// written. In the order of the file. At most 65,536; names of over 256 bytes are left out.
  std::vector<std::pair<std::string, std::string>> lora_alphas = {};
  /// The first of `architectures`, otherwise `_class_name` or `model_type`. At most 64 bytes, empty if there is none.
  std::string architecture = {};
  std::optional<std::uint64_t> layers = std::nullopt;           ///< `num_hidden_layers`, `n_layer` or `num_layers`
  std::optional<std::uint64_t> heads = std::nullopt;            ///< `num_attention_heads` or `n_head`
  std::optional<std::uint64_t> key_value_heads = std::nullopt;  ///< `num_key_value_heads`
  std::optional<std::uint64_t> context = std::nullopt;          ///< tokens: `max_position_embeddings` or `n_positions`
  std::optional<std::uint64_t> experts = std::nullopt;          ///< routed experts per layer: `num_experts` or the like
  std::optional<std::uint64_t> experts_per_token = std::nullopt;  ///< `num_experts_per_tok` or the like
  std::optional<std::uint64_t> shared_experts = std::nullopt;     ///< `n_shared_experts` or `num_shared_experts`
  /// Names of members among those above that were ignored because of their type or their size. At most 8, in their
  /// order in the files.
  std::vector<std::string> ignored = {};
};

/// Reads the facts from the text of a `config.json` or an `adapter_config.json`. Unknown members are ignored, and so
/// are members of another type than expected. The numbers of layers, heads, experts and tokens may also be in the
/// object `text_config`, `llm_config` or `language_config`. A member beside this object wins.
/// Errors: json_syntax and the other errors of rules 4 and 5, with an offset in the text; invalid_argument (over 16
/// MiB); out_of_memory.
[[nodiscard]] SAFETENSORS_API Result<ModelConfig> parse_model_config(std::string_view json) noexcept;

/// Reads `config.json` and `adapter_config.json` of a folder. A file that does not exist gives no facts.
/// Errors: those of parse_model_config(), with the path of the file; open_failed, read_failed, not_regular_file.
[[nodiscard]] SAFETENSORS_API Result<ModelConfig> read_model_config(PathView folder) noexcept;

/// A trait, the tensors that show it, and its numbers. Each list has at most 8 entries, `targets` at most 64. All texts
/// may hold names from the file: print them with printable().
struct ModelFinding {
  ModelTrait trait = ModelTrait::lora;          ///< the trait
  std::uint64_t modules = 0;                    ///< number of modules (weights) that have it
  std::vector<std::uint64_t> bits = {};         ///< bits per packed weight, ascending, without the scales
  std::vector<std::uint64_t> group_sizes = {};  ///< weights that share a scale, ascending
  std::vector<std::uint64_t> ranks = {};        ///< lora: the ranks, ascending
  std::string alpha = {};                       ///< lora: the alpha of the metadata or of the configuration, or empty
  std::vector<std::string> targets = {};        ///< lora: the last part of the names of the modules, sorted, each once
  std::string evidence = {};                    ///< one clause: "`qweight`, `qzeros`, `scales`, `g_idx`"
};

/// The result of recognize().
struct Recognition {
  std::vector<ModelFinding> findings = {};  ///< in the order of ModelTrait, each trait at most once
  std::uint64_t nbytes = 0;                 ///< bytes of all tensors
  /// Number of weights. A packed tensor counts as the weights that it packs. Scales and other helpers do not count.
  std::uint64_t weights = 0;
  /// Number of tensors that pack weights, but do not show how many. They are not in `weights`. Only their configuration
  /// tells the number. Tensors with Dtype::UNKNOWN are among them.
  std::uint64_t unknown = 0;
  /// The part of `weights` that is in routed experts: tensors with a part `experts` in their names, such as
  /// `layers.0.mlp.experts.7.up_proj.weight`. Shared experts are not among them.
  std::uint64_t expert_weights = 0;
  /// Number of routed experts per layer, from the names, or from the first dimension of tensors that hold all experts
  /// of a layer. 0: there are none, layers have different numbers, or the tensors are only some shards of a model.
  std::uint64_t experts = 0;

  /// Returns the bytes x 8 of all tensors per weight. Returns nullopt if there are no weights, or if `unknown` is not
  /// 0.
  [[nodiscard]] std::optional<double> bits_per_weight() const noexcept {
    if (weights == 0 || unknown != 0) return std::nullopt;
    return static_cast<double>(nbytes) * 8 / static_cast<double>(weights);
  }
};

/// Recognizes what kind of model a set of tensors is:
/// @code
/// const Checkpoint model = Checkpoint::open("llama-7b-gptq").value();
/// const Recognition found = recognize(model.tensors(), model.metadata()).value();
/// for (const ModelFinding& finding : found.findings) ...
/// @endcode
///
/// Looks at names, dtypes, shapes, `metadata` and `config`, and reads no tensor. A trait needs tensors whose names,
/// dtypes and shapes fit together, so a name alone shows nothing. Takes O(n log n) time for n tensors.
/// Error: out_of_memory.
[[nodiscard]] SAFETENSORS_API Result<Recognition> recognize(Tensors tensors, Metadata metadata,
                                                            const ModelConfig& config = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
