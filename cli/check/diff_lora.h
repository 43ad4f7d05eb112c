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
  // The tensor of the model, if there is one with as many elements as the product.
  std::optional<Tensor> base = std::nullopt;
  std::uint64_t rank = 0;
  double scale = 1;                                // alpha / rank, or alpha / sqrt(rank)
  std::optional<double> change = std::nullopt;     // Frobenius norm of scale x up x down; nullopt: too large to compute
  std::optional<double> base_norm = std::nullopt;  // Frobenius norm of the finite elements of `base`

  // The change divided by the norm of the tensor.
  [[nodiscard]] std::optional<double> relative() const;
};

struct LoraDiff {
  std::vector<LoraPair> pairs;
  std::uint64_t others = 0;  // tensors of the adapter that are in no pair, without alphas
};

// Compares an adapter with the model that it is for. path: of the adapter; adapter_config.json beside it has the alpha,
// unless the adapter has it. Reads matrices and tensors in blocks. progress: see StatsOptions.
// Errors: invalid_argument (the second input has no pair of matrices), cancelled, and those of stats().
[[nodiscard]] Result<LoraDiff> diff_lora(const Input& model, const Input& adapter, const std::string& path,
                                         const Selection& selection, Console& console);

// Sorts by "name", by "max-error" (largest relative change first), or not at all.
void sort_pairs(std::vector<LoraPair>& pairs, std::string_view sort);
// Prints a row per pair, and a line that sums them up. brief: only the line.
void print_lora(Console& console, const LoraDiff& found, const DiffView& view, bool brief);
// Writes the member "adapters".
void json_lora(Json& json, const LoraDiff& found);

}  // namespace safetensors::cli
