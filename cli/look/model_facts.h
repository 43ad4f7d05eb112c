// The facts that decide whether a model is downloaded or loaded: its configuration, experts, active parameters, and the
// memory that it needs, on one device and on several ranks. For the subcommand info.
#pragma once

#include "console.h"
#include "input.h"
#include "json_output.h"

#include <safetensors/recognize.h>

#include <cstdint>
#include <optional>
#include <string>

namespace safetensors::cli {

// The configurations of a model.
struct Configs {
  ModelConfig of_model;  // of a folder or an index. Empty for a file, because a file may lie anywhere
  ModelConfig beside;    // of the folder of the first file, also for a file
};

// Reads config.json and adapter_config.json. A configuration that cannot be used is not an error of the model, but a
// notice.
[[nodiscard]] Configs read_configs(const std::string& path, const Input& input, Console& console);

// Returns the parameters that one token uses, if the model has routed experts and their numbers are known: those
// outside of the routed experts, and a share of those inside.
[[nodiscard]] std::optional<std::uint64_t> active_parameters(const ModelConfig& config, const Recognition& found);

// Returns the bytes of one rank, if each tensor of two or more dimensions is split along the first dimension that
// `ranks` divides. Each rank has all other tensors. ranks: not 0.
[[nodiscard]] std::uint64_t bytes_per_rank(const Input& input, std::uint64_t ranks);

// Prints the lines "config", "experts" and "active". indent: that of the values.
void print_config(Console& console, const ModelConfig& config, const Recognition& found, std::size_t indent);
// Prints the lines "memory" and "ranks".
void print_memory(Console& console, const Input& input, const Recognition& found, std::size_t indent);
// Writes the members "config", "experts", "active_parameters", "memory" and "ranks".
void json_facts(Json& json, const Input& input, const ModelConfig& config, const Recognition& found);

}  // namespace safetensors::cli
