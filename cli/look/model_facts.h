// Facts that help to decide whether to download or to load a model, for the subcommand info: its configuration, its
// experts, its active parameters, and the memory that it needs on one device and on several ranks.
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
  ModelConfig of_model;  // belongs to the model. Empty if the path is a file, because a file may lie anywhere
  ModelConfig beside;    // in the folder of the first file, also if the path is a file
};

// Reads config.json and adapter_config.json. Prints a notice if a configuration cannot be used.
[[nodiscard]] Configs read_configs(const std::string& path, const Input& input, Console& console);

// Returns the number of parameters that one token uses: those outside of the routed experts, and the share of its
// experts of those inside. Returns nullopt if the model has no routed experts, or if a number is unknown.
[[nodiscard]] std::optional<std::uint64_t> active_parameters(const ModelConfig& config, const Recognition& found);

// Returns the number of bytes on each of `ranks` ranks, if each tensor of two or more dimensions is split along the
// first dimension that `ranks` divides. Each rank has all other tensors. `ranks` must not be 0.
[[nodiscard]] std::uint64_t bytes_per_rank(const Input& input, std::uint64_t ranks);

// Prints the lines "config", "experts", "active" and "ignored". indent: the column of the values.
void print_config(Console& console, const ModelConfig& config, const Recognition& found, std::size_t indent);
// Prints the lines "memory" and "ranks".
void print_memory(Console& console, const Input& input, const Recognition& found, std::size_t indent);
// Writes the members "config", "experts", "active_parameters", "memory" and "ranks".
void json_facts(Json& json, const Input& input, const ModelConfig& config, const Recognition& found);

}  // namespace safetensors::cli
