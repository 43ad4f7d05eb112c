// Reads the few members of config.json and adapter_config.json that recognize() and reports can use. The text comes
// from strangers, so it goes through the strict reader, and a member of an unexpected type is skipped. At most 16 MiB
// are read.
#include <safetensors/recognize.h>

#include <algorithm>
#include <memory>
#include <span>

#include "base/error.h"
#include "check/recognize.h"
#include "json/reader.h"
#include "os/directory.h"
#include "os/path.h"
#include "os/regular_file.h"

namespace safetensors {
namespace check {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;
constexpr std::size_t kMaxConfigText = 64;   // bytes of a number or a name
constexpr std::size_t kMaxModuleName = 256;  // bytes
constexpr std::size_t kMaxAlphas = 65536;
constexpr std::size_t kMaxIgnored = 8;

// The numbers that config.json has under different names, depending on the kind of model.
using Number = std::optional<std::uint64_t> ModelConfig::*;
struct NumberName {
  std::string_view name;
  Number number;
};
constexpr NumberName kNumbers[] = {
    {"num_hidden_layers", &ModelConfig::layers},
    {"n_layer", &ModelConfig::layers},
    {"n_layers", &ModelConfig::layers},
    {"num_layers", &ModelConfig::layers},
    {"num_attention_heads", &ModelConfig::heads},
    {"n_head", &ModelConfig::heads},
    {"n_heads", &ModelConfig::heads},
    {"num_heads", &ModelConfig::heads},
    {"num_key_value_heads", &ModelConfig::key_value_heads},
    {"max_position_embeddings", &ModelConfig::context},
    {"n_positions", &ModelConfig::context},
    {"n_ctx", &ModelConfig::context},
    {"max_seq_len", &ModelConfig::context},
    {"num_experts", &ModelConfig::experts},
    {"num_local_experts", &ModelConfig::experts},
    {"n_routed_experts", &ModelConfig::experts},
    {"moe_num_experts", &ModelConfig::experts},
    {"num_experts_per_tok", &ModelConfig::experts_per_token},
    {"num_experts_per_token", &ModelConfig::experts_per_token},
    {"experts_per_token", &ModelConfig::experts_per_token},
    {"moe_topk", &ModelConfig::experts_per_token},
    {"moe_top_k", &ModelConfig::experts_per_token},
    {"n_shared_experts", &ModelConfig::shared_experts},
    {"num_shared_experts", &ModelConfig::shared_experts},
    {"moe_num_shared_experts", &ModelConfig::shared_experts},
};
Number number_named(std::string_view name) {
  for (const NumberName& known : kNumbers)
    if (known.name == name) return known.number;
  return nullptr;
}

class ConfigParser {
 public:
  ConfigParser(char* text, std::size_t size, ModelConfig& config) : reader_(text, size), config_(config) {}

  bool parse() {
    if (!members(0, [this](std::string_view key) { return root_member(key); }) || !reader_.end()) return false;
    for (const NumberName& known : kNumbers)
      if (!(config_.*known.number)) config_.*known.number = text_model_.*known.number;
    if (config_.architecture.empty()) config_.architecture = class_name_.empty() ? model_type_ : class_name_;
    return true;
  }
  [[nodiscard]] const json::Failure& failure() const { return reader_.failure(); }

 private:
  // Calls `member` for each member of an object. It must read the value.
  template <class Member>
  bool members(unsigned open, const Member& member) {
    if (!reader_.open('{', "expected an object")) return false;
    if (reader_.consume('}')) return true;
    open_ = open + 1;
    for (bool more = true; more;) {
      std::string_view key;
      std::size_t start = 0;
      if (!reader_.key(key, start) || !member(std::string(key.substr(0, kMaxModuleName + 1)))) return false;
      open_ = open + 1;
      if (!reader_.next('}', more)) return false;
    }
    return true;
  }

  bool root_member(std::string_view key) {
    if (key == "quantization_config" && reader_.peek() == '{')
      return members(open_, [this](std::string_view inner) { return quantization_member(inner); });
    if ((key == "text_config" || key == "llm_config" || key == "language_config") && reader_.peek() == '{')
      return members(open_, [this](std::string_view inner) {
        const Number wanted = number_named(inner);
        return wanted == nullptr ? reader_.skip_value(open_) : count(inner, text_model_.*wanted);
      });
    if (const Number wanted = number_named(key); wanted != nullptr) return count(key, config_.*wanted);
    if (key == "architectures") return architectures();
    if (key == "_class_name") return named_text(key, class_name_);
    if (key == "model_type") return named_text(key, model_type_);
    if (key == "tie_word_embeddings") return boolean(config_.tied_embeddings);
    if (key == "r") return integer(config_.lora_rank);
    if (key == "lora_alpha") return number(config_.lora_alpha);
    if (key == "use_rslora") return boolean(config_.lora_rank_stabilized);
    if (key == "alpha_pattern" && reader_.peek() == '{')
      return members(open_, [this](std::string_view module) { return alpha_of(module); });
    if (key == "target_modules" && reader_.peek() == '[') return targets();
    return reader_.skip_value(open_);
  }

  void ignore(std::string_view key) {
    if (config_.ignored.size() < kMaxIgnored && std::ranges::find(config_.ignored, key) == config_.ignored.end())
      config_.ignored.emplace_back(key);
  }
  // The first of several names in a file wins. null is as if the member were missing.
  bool count(std::string_view key, std::optional<std::uint64_t>& out) {
    const bool is_null = reader_.peek() == 'n';
    std::optional<std::uint64_t> found;
    if (!integer(found)) return false;
    if (!found && !is_null) ignore(key);
    if (!out) out = found;
    return true;
  }
  bool named_text(std::string_view key, std::string& out) {
    const char first = reader_.peek();
    if (first != '"' && first != 'n') ignore(key);
    return text(out);
  }
  bool architectures() {
    const char first = reader_.peek();
    if (first != '[') {
      if (first != 'n') ignore("architectures");
      return reader_.skip_value(open_);
    }
    if (!reader_.open('[', "expected an array")) return false;
    if (reader_.consume(']')) return true;
    bool is_first = true;
    for (bool more = true; more;) {
      ++open_;
      const bool good = is_first ? named_text("architectures", config_.architecture) : reader_.skip_value(open_);
      --open_;
      is_first = false;
      if (!good || !reader_.next(']', more)) return false;
    }
    return true;
  }

  bool quantization_member(std::string_view key) {
    if (key == "quant_method") return text(config_.quantization);
    if (key == "bits") return integer(config_.bits);
    if (key == "group_size") return integer(config_.group_size);
    if (key == "config_groups" && reader_.peek() == '{')  // compressed-tensors: a group of layers per member
      return members(open_, [this](std::string_view) { return group(); });
    return reader_.skip_value(open_);
  }

  bool group() {
    if (reader_.peek() != '{') return reader_.skip_value(open_);
    return members(open_, [this](std::string_view key) {
      if (key != "weights" || reader_.peek() != '{') return reader_.skip_value(open_);
      return members(open_, [this](std::string_view inner) {
        if (inner == "num_bits") return integer(config_.bits);
        if (inner == "group_size") return integer(config_.group_size);
        return reader_.skip_value(open_);
      });
    });
  }

  // The text of the value that skip_value() accepts.
  bool scalar(std::string_view& value) {
    (void)reader_.peek();
    const char* const begin = reader_.position();
    if (!reader_.skip_value(open_)) return false;
    value = {begin, static_cast<std::size_t>(reader_.position() - begin)};
    return true;
  }
  bool integer(std::optional<std::uint64_t>& out) {
    std::string_view value;
    if (!scalar(value)) return false;
    if (value.empty() || value.size() > 18 || value.find_first_not_of("0123456789") != std::string_view::npos)
      return true;
    std::uint64_t number = 0;
    for (const char digit : value) number = number * 10 + static_cast<std::uint64_t>(digit - '0');
    out = number;
    return true;
  }
  bool number(std::string& out) {
    std::string_view value;
    if (!scalar(value)) return false;
    const bool is_number = !value.empty() && (value[0] == '-' || (value[0] >= '0' && value[0] <= '9'));
    if (is_number && value.size() <= kMaxConfigText) out = value;
    return true;
  }
  bool alpha_of(std::string_view module) {
    std::string alpha;
    if (!number(alpha)) return false;
    const bool fits = module.size() <= kMaxModuleName && config_.lora_alphas.size() < kMaxAlphas;
    if (fits && !alpha.empty()) config_.lora_alphas.emplace_back(module, std::move(alpha));
    return true;
  }
  bool boolean(std::optional<bool>& out) {
    std::string_view value;
    if (!scalar(value)) return false;
    if (value == "true" || value == "false") out = value == "true";
    return true;
  }
  // The reader has checked the UTF-8: a cut text must not end inside of a character.
  bool text(std::string& out) {
    if (reader_.peek() != '"') return reader_.skip_value(open_);
    std::string_view value;
    if (!reader_.string(value)) return false;
    std::size_t size = std::min(value.size(), kMaxConfigText);
    while (size < value.size() && (static_cast<unsigned char>(value[size]) & 0xC0) == 0x80) --size;
    out = value.substr(0, size);
    return true;
  }
  bool targets() {
    if (!reader_.open('[', "expected an array")) return false;
    if (reader_.consume(']')) return true;
    for (bool more = true; more;) {
      std::string name;
      ++open_;
      const bool good = text(name);
      --open_;
      if (!good) return false;
      if (!name.empty() && config_.lora_targets.size() < kMaxTargets) config_.lora_targets.push_back(std::move(name));
      if (!reader_.next(']', more)) return false;
    }
    std::ranges::sort(config_.lora_targets);
    return true;
  }

  json::Reader reader_;
  ModelConfig& config_;
  ModelConfig text_model_;  // the numbers of text_config
  std::string class_name_;
  std::string model_type_;
  unsigned open_ = 0;  // open containers around the next value
};

Status parse_into(char* text, std::size_t size, ModelConfig& config) {
  std::fill_n(text + size, json::Reader::kPadding, '\0');
  ConfigParser parser(text, size, config);
  if (parser.parse()) return {};
  Error error = base::make_error(parser.failure().code, std::string("invalid configuration: ") + parser.failure().what);
  error.offset = parser.failure().offset;
  return error;
}

Status read_into(const std::string& path, ModelConfig& config) {
  if (os::kind_of(path) == os::PathKind::nothing) return {};
  const auto file = os::RegularFile::open(path);
  if (!file) return file.error();
  const std::uint64_t size = (*file)->identity().size;
  if (size > kMaxConfigBytes)
    return base::make_error(Errc::invalid_argument,
                            "configuration too large: " + std::to_string(size) + " bytes, at most " +
                                std::to_string(kMaxConfigBytes) + " are read",
                            path);
  const auto length = static_cast<std::size_t>(size);
  const auto text = std::make_unique_for_overwrite<char[]>(length + json::Reader::kPadding);
  Status status = os::read_exactly(**file, 0, std::as_writable_bytes(std::span(text.get(), length)));
  if (status) status = parse_into(text.get(), length, config);
  if (!status) return base::with_path(std::move(status).error(), path);
  return {};
}

}  // namespace
}  // namespace check

inline namespace v0 {

Result<ModelConfig> parse_model_config(std::string_view json) noexcept {
  return base::guarded([&]() -> Result<ModelConfig> {
    if (json.size() > check::kMaxConfigBytes)
      return base::make_error(Errc::invalid_argument, "configuration too large: " + std::to_string(json.size()) +
                                                          " bytes, at most " + std::to_string(check::kMaxConfigBytes) +
                                                          " are read");
    std::string text(json);
    text.resize(json.size() + json::Reader::kPadding);
    ModelConfig config;
    if (Status status = check::parse_into(text.data(), json.size(), config); !status) return std::move(status).error();
    return config;
  });
}

Result<ModelConfig> read_model_config(PathView folder) noexcept {
  return base::guarded([&]() -> Result<ModelConfig> {
    ModelConfig config;
    for (const char* const name : {"config.json", "adapter_config.json"}) {
      const std::string path = os::join_path(os::generic_path(folder), name);
      if (Status status = check::read_into(path, config); !status) return std::move(status).error();
    }
    return config;
  });
}

}  // namespace v0
}  // namespace safetensors
