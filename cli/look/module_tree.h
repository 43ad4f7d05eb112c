// Groups tensors by the modules in their names, and folds modules that repeat.
#pragma once

#include "console.h"
#include "json_output.h"

#include <safetensors/header.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace safetensors::cli {

// A module, a tensor, or several of them with the same content.
struct ModuleNode {
  // One component of names, or several that follow each other. In braces: the numbers of folded modules, such as
  // "layers.{0..31}". A long list of numbers is cut.
  std::string name;
  std::uint64_t modules = 1;  // number of modules or tensors that this node stands for, in one parent
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
  const TensorInfo* tensor = nullptr;  // null for a module; of several tensors it is the first
  std::vector<ModuleNode> children;
};

// Returns the modules of the first level. tensors: in natural order, so that modules with the same content have it in
// the same order. Children have this order, or with by_size the largest comes first. At most 16 levels are split. The
// nodes point to the tensors.
[[nodiscard]] std::vector<ModuleNode> make_module_tree(std::span<const TensorInfo* const> tensors, bool by_size);

// Prints a table with one line per node. `bytes`: those of all tensors, for shares.
void print_tree(Console& console, const std::vector<ModuleNode>& nodes, std::uint64_t bytes, bool heading);
// Writes the nodes as an array.
void print_tree(Json& json, const std::vector<ModuleNode>& nodes);

}  // namespace safetensors::cli
