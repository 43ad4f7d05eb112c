// The tables of diff: the tensors that differ, and the layers.
#pragma once

#include "console.h"

#include <safetensors/diff.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

struct DiffView {
  std::string sort;                  // "name", "max-error", "relative", "differing", or empty: the order of A
  std::optional<std::uint64_t> top;  // number of rows
  bool values = true;                // whether values were compared
};

// Sorts the tensors that differ: the largest come first, and equal ones in natural order of their names.
void sort_differences(std::vector<TensorDiff>& tensors, std::string_view sort);

// The index of an element by its place in C order.
[[nodiscard]] std::vector<std::uint64_t> index_of(std::uint64_t element, ShapeView shape);
// The relative change: the sum of all |a - b| divided by the sum of all |b|.
[[nodiscard]] double relative_of(const TensorDiff& found);
// Whether the values of the tensors can be compared.
[[nodiscard]] bool compares_values(const TensorDiff& found);

// Prints a row per tensor that differs. tensors: sorted.
void print_differences(Console& console, const std::vector<TensorDiff>& tensors, const DiffView& view);
// Prints a row per layer with a tensor that differs. A layer is the beginning of names up to the first number, such as
// "model.layers.10", or else up to the last dot. all: the names of all compared tensors, each once.
void print_layers(Console& console, const std::vector<TensorDiff>& tensors, std::span<const std::string_view> all,
                  const DiffView& view);

}  // namespace safetensors::cli
