// Computes the facts from config.json and from headers. A configuration may be wrong, so active parameters are shown
// only if the tensors have the same number of experts. A number that cannot be derived is left out.
#include "model_facts.h"

#include "text/escape.h"
#include "text/formatted.h"
#include "text/size.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

namespace safetensors::cli {
namespace {

constexpr std::array<std::uint64_t, 3> kRanks = {2, 4, 8};
constexpr std::array<std::uint64_t, 3> kBits = {16, 8, 4};

// Returns the folder whose configuration belongs to the model. Returns nullopt for a single file and standard input.
std::optional<std::string> config_folder(const std::string& path) {
  std::error_code failed;
  if (path == kStandardInput) return std::nullopt;
  if (std::filesystem::is_directory(path, failed)) return path;
  if (!path.ends_with(".json")) return std::nullopt;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

ModelConfig read_config(const std::string& folder, Console& console) {
  Result<ModelConfig> config = read_model_config(folder);
  if (config) return *std::move(config);
  Error error = std::move(config).error();
  if (format_rule(error.code) != 0) error.code = Errc::invalid_argument;  // the rules are those of headers
  console.message(formatted("{}: notice: not used: {}", printable(error.path), describe(error)));
  return {};
}

// Returns the number of routed experts per layer. Returns 0 if there are none, or if their number is unknown.
std::uint64_t experts_of(const ModelConfig& config, const Recognition& found) {
  return found.experts != 0 ? found.experts : config.experts.value_or(0);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string config_text(const ModelConfig& config) {
  std::vector<std::string> parts;
  if (!config.architecture.empty()) parts.push_back(shortened(config.architecture, 40));
  if (config.layers) parts.push_back(counted(*config.layers, "layer"));
  if (config.heads) parts.push_back(counted(*config.heads, "head"));
  if (config.heads && config.key_value_heads)
    parts.back() += formatted(" ({} for keys and values)", grouped(*config.key_value_heads));
  if (config.context) parts.push_back("context " + counted(*config.context, "token"));
  return joined(parts);
}

// Returns the bytes of `weights` numbers of 16, 8 or 4 bits, rounded up.
std::uint64_t bytes_in(std::uint64_t weights, std::uint64_t bits) {
  if (bits == 16) return weights > UINT64_MAX / 2 ? UINT64_MAX : weights * 2;
  return bits == 8 ? weights : weights / 2 + weights % 2;
}

void optional_number(Json& json, std::string_view key, std::optional<std::uint64_t> number) {
  json.key(key);
  if (number) {
    json.number(*number);
  } else {
    json.null();
  }
}

void json_config(Json& json, const ModelConfig& config) {
  json.line().key("config").open('{').key("architecture");
  if (config.architecture.empty()) {
    json.null();
  } else {
    json.string(config.architecture);
  }
  optional_number(json, "layers", config.layers);
  optional_number(json, "heads", config.heads);
  optional_number(json, "key_value_heads", config.key_value_heads);
  optional_number(json, "context", config.context);
  json.line();
  optional_number(json, "experts", config.experts);
  optional_number(json, "experts_per_token", config.experts_per_token);
  optional_number(json, "shared_experts", config.shared_experts);
  json.key("ignored").open('[');
  for (const std::string& name : config.ignored) json.string(name);
  json.close(']').close('}');
}

}  // namespace

Configs read_configs(const std::string& path, const Input& input, Console& console) {
  Configs configs;
  if (path == kStandardInput) return configs;
  if (const std::optional<std::string> folder = config_folder(path)) {
    configs.of_model = read_config(*folder, console);
    configs.beside = configs.of_model;
  } else if (!input.files().empty()) {
    const std::string beside = std::filesystem::path(input.files()[0].path()).parent_path().string();
    configs.beside = read_config(beside.empty() ? "." : beside, console);
  }
  return configs;
}

std::optional<std::uint64_t> active_parameters(const ModelConfig& config, const Recognition& found) {
  const std::uint64_t experts = found.experts;
  if (experts == 0 || found.unknown != 0 || !config.experts_per_token) return std::nullopt;
  if (config.experts && *config.experts != experts) return std::nullopt;
  const std::uint64_t used = *config.experts_per_token;
  if (used == 0 || used > experts || found.expert_weights % experts != 0) return std::nullopt;
  return found.weights - found.expert_weights + found.expert_weights / experts * used;
}

std::uint64_t bytes_per_rank(const Input& input, std::uint64_t ranks) {
  std::uint64_t sum = 0;
  for (const Listed& listed : input.tensors()) {
    const TensorInfo& tensor = *listed.info;
    bool split = false;
    for (std::size_t i = 0; tensor.shape.size() >= 2 && i < tensor.shape.size(); ++i)
      split = split || (tensor.shape[i] != 0 && tensor.shape[i] % ranks == 0);
    const std::uint64_t bytes = tensor.nbytes();
    sum += split ? bytes / ranks + (bytes % ranks != 0 ? 1 : 0) : bytes;
  }
  return sum;
}

void print_config(Console& console, const ModelConfig& config, const Recognition& found, std::size_t indent) {
  if (const std::string text = config_text(config); !text.empty()) console.line("  config      " + text, indent);
  std::vector<std::string> parts;
  if (const std::uint64_t experts = experts_of(config, found); experts != 0) {
    parts.push_back(formatted("{} per layer", grouped(experts)));
    if (config.experts_per_token) parts.push_back(formatted("{} per token", grouped(*config.experts_per_token)));
    if (config.shared_experts) parts.push_back(formatted("{} shared", grouped(*config.shared_experts)));
    if (config.experts && *config.experts != experts)
      parts.push_back(formatted("but the configuration has {}", grouped(*config.experts)));
    console.line("  experts     " + joined(parts), indent);
  }
  if (const std::optional<std::uint64_t> active = active_parameters(config, found))
    console.line(formatted("  active      {} per token: {} of {} experts, and all other tensors",
                           counted(*active, "parameter"), grouped(*config.experts_per_token), grouped(found.experts)),
                 indent);
  if (config.ignored.empty()) return;
  std::vector<std::string> names;
  for (const std::string& name : config.ignored) names.push_back(printable(name));
  console.line(formatted("  ignored     {} of the configuration: not a number, or not a text", joined(names)), indent);
}

void print_memory(Console& console, const Input& input, const Recognition& found, std::size_t indent) {
  if (found.nbytes == 0) return;
  // The line fits into 80 columns.
  std::string memory = size_text(found.nbytes) + " as stored";
  if (found.weights != 0 && found.unknown == 0) {
    std::vector<std::string> sizes;
    sizes.reserve(kBits.size());
    for (const std::uint64_t bits : kBits) sizes.push_back(size_text(bytes_in(found.weights, bits)));
    memory += formatted("; {} in 16, 8, 4 bits", joined(sizes));
  }
  console.line("  memory      " + memory, indent);
  std::vector<std::string> parts;
  parts.reserve(kRanks.size());
  for (const std::uint64_t ranks : kRanks) {
    parts.push_back(
        formatted("{} {} {}", size_text(bytes_per_rank(input, ranks)), parts.empty() ? "on each of" : "of", ranks));
  }
  console.line("  ranks       " + joined(parts), indent);
}

void json_facts(Json& json, const Input& input, const ModelConfig& config, const Recognition& found) {
  json_config(json, config);
  json.line().field("experts", found.experts).field("expert_parameters", found.expert_weights);
  optional_number(json, "active_parameters", active_parameters(config, found));
  json.line().key("memory").open('{').field("stored", found.nbytes);
  const bool known = found.weights != 0 && found.unknown == 0;
  for (const std::uint64_t bits : kBits)
    optional_number(json, formatted("bits_{}", bits),
                    known ? std::optional<std::uint64_t>(bytes_in(found.weights, bits)) : std::nullopt);
  json.close('}').line().key("ranks").open('[');
  for (const std::uint64_t ranks : kRanks)
    json.open('{').field("ranks", ranks).field("nbytes", bytes_per_rank(input, ranks)).close('}');
  json.close(']');
}

}  // namespace safetensors::cli
