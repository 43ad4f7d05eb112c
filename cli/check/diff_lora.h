// diff --lora: what a low-rank adapter changes in a model.
#pragma once

#include "console.h"
#include "diff_tables.h"
#include "input.h"
#include "selection.h"

#include <safetensors/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// A pair of matrices of the adapter, and the tensor that it changes.
struct LoraPair {
  std::string module;  // the name of the pair, without the words for its matrices
  Tensor down;         // [rank, in, ...]
  Tensor up;           // [out, rank, ...]
  // The tensor of the model that has as many elements as the product of the matrices, if there is one.
  std::optional<Tensor> base = std::nullopt;
  std::uint64_t rank = 0;
  double scale = 1;                                // alpha / rank, or alpha / sqrt(rank)
  std::optional<double> change = std::nullopt;     // Frobenius norm of scale x up x down; nullopt: too large to compute
  std::optional<double> base_norm = std::nullopt;  // Frobenius norm of `base`; NaN if an element is not finite

  // Returns the change divided by the norm of the tensor. Returns nullopt if one of them is unknown, or the norm is 0.
  [[nodiscard]] std::optional<double> relative() const;
};

struct LoraDiff {
  std::vector<LoraPair> pairs;
  std::uint64_t others = 0;  // tensors of the adapter that are neither in a pair nor an alpha
};

// Compares an adapter with the model that it changes. path: the path of the adapter. The alpha comes from the adapter,
// or else from adapter_config.json beside it. Reads matrices and tensors in blocks, and shows the progress on the
// console. Errors: invalid_argument if the adapter has no pair of matrices, cancelled, dtype_mismatch if a matrix has
// no floats, and those of stats().
[[nodiscard]] Result<LoraDiff> diff_lora(const Input& model, const Input& adapter, const std::string& path,
                                         const Selection& selection, Console& console);

// Sorts by "name", by "max-error" (largest relative change first), or not at all.
void sort_pairs(std::vector<LoraPair>& pairs, std::string_view sort);
// Prints a row per pair, and a line that sums them up. brief: only the line.
void print_lora(Console& console, const LoraDiff& found, const DiffView& view, bool brief);
// Writes the member "adapters".
void json_lora(Json& json, const LoraDiff& found);

}  // namespace safetensors::cli
