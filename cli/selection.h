// The options that choose tensors: --match, --exclude, --dtype and --layers. All verbs have the same ones.
// A tensor is chosen if each given option chooses it.
#pragma once

#include "arguments.h"
#include "input.h"

#include <safetensors/dtype.h>
#include <safetensors/header.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors::cli {

// The options that choose tensors.
inline constexpr Option kChoiceOptions[] = {
    {"-m,--match", "GLOB",
     "tensors whose names match: * any text, ? one character, [a-z] one of a set; may be given several times", nullptr,
     Values::any, true},
    {"--exclude", "GLOB", "leave out tensors whose names match; may be given several times", nullptr, Values::any,
     true},
    {"--dtype", "LIST", "tensors of these dtypes: F32, or bf16,f16", nullptr, Values::dtype, true},
    {"--layers", "LIST",
     "tensors of these layers: 0-3,7. The layer is the first part of a name between dots that has only digits: 12 in "
     "model.layers.12.mlp.bias",
     nullptr, Values::any, true},
};

// The tensors that the options of one command line choose.
class Selection {
 public:
  Selection() = default;
  // Reads the values of the options. names: further patterns of --match. Throws UsageError.
  explicit Selection(const Arguments& given, std::span<const std::string> names = {});

  // Returns whether no option is given.
  [[nodiscard]] bool empty() const { return exclude_.empty() && !chooses(); }
  // Returns whether an option other than --exclude is given.
  [[nodiscard]] bool chooses() const;
  // Returns whether an option that looks at names is given: --match or --exclude.
  [[nodiscard]] bool chooses_names() const { return !match_.empty() || !exclude_.empty(); }
  // Returns whether the tensor is chosen. Without options, each tensor is.
  [[nodiscard]] bool selects(const TensorInfo& tensor) const;
  // The dtypes of --dtype.
  [[nodiscard]] const std::vector<Dtype>& dtypes() const { return dtypes_; }

  // Returns the first pattern of --match or --exclude that matches none of these tensors, or nullptr.
  [[nodiscard]] const std::string* unmatched(std::span<const TensorInfo* const> tensors) const;
  // Returns the text of an error for tensors of which none is chosen. It names the first option that leaves no tensor,
  // and says what the tensors have: "no tensor matches --dtype F16 (found F32, BF16)". For patterns, it has a hint
  // instead: "no tensor's name matches (a pattern is for the whole name: try '*norm*')". where: words such as " in A or
  // B", or empty.
  [[nodiscard]] std::string nothing(std::vector<const TensorInfo*> tensors, std::string_view where = "") const;

 private:
  [[nodiscard]] bool selects_name(std::string_view name) const;
  [[nodiscard]] bool selects_dtype(Dtype dtype) const;
  [[nodiscard]] bool selects_layer(std::string_view name) const;

  std::vector<std::string> match_;
  std::vector<std::string> exclude_;
  std::vector<std::string> dtype_texts_;
  std::vector<std::string> layer_texts_;
  std::vector<Dtype> dtypes_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> layers_;  // first and last of each range
};

// Returns the tensors that are chosen. Error: not_found, with the text of Selection::nothing(), if options are given
// and choose none.
[[nodiscard]] Result<std::vector<Listed>> chosen_tensors(const Selection& selection, const Input& input);

// Returns the hint for a pattern that matches nothing: " (a pattern is for the whole name: try '*norm*')". Empty if the
// pattern has wildcards.
[[nodiscard]] std::string pattern_hint(std::string_view glob);

// Returns the layer of a tensor: the first part of its name between dots that has only digits. Empty if no part has.
[[nodiscard]] std::string_view layer_part(std::string_view name);

// A dtype by its name in any case ("bf16", "F8_E4M3"), or by a word of frameworks: "half", "bfloat16", "float8_e4m3fn",
// "int8". "fp8" is F8_E4M3.
[[nodiscard]] std::optional<Dtype> dtype_named(std::string_view text);

// The same for the value of an option. Throws UsageError.
[[nodiscard]] Dtype dtype_of(std::string_view option, std::string_view text);

}  // namespace safetensors::cli
