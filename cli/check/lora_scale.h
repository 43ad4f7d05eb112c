// The scale of a low-rank adapter, as the configuration of PEFT gives it.
#pragma once

#include <safetensors/recognize.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// Returns the number that the text is. Returns nullopt if the text is not a finite decimal number.
[[nodiscard]] std::optional<double> parse_alpha(std::string_view text);

// Finds the alpha of a module in lora_alpha and alpha_pattern, and whether the rank or its root divides it.
class LoraScales {
 public:
  explicit LoraScales(const ModelConfig& config);
  LoraScales(LoraScales&&) noexcept;
  LoraScales& operator=(LoraScales&&) noexcept;
  LoraScales(const LoraScales&) = delete;
  LoraScales& operator=(const LoraScales&) = delete;
  ~LoraScales();

  // Returns the scale of a module, or 1 if the configuration has no alpha for it. `rank` must be above 0.
  [[nodiscard]] double scale(std::string_view module, std::uint64_t rank) const;
  // Returns the first expression of alpha_pattern that cannot be used, such as one with a lookahead.
  [[nodiscard]] const std::optional<std::string>& unknown() const { return unknown_; }

 private:
  struct Expression;

  [[nodiscard]] std::optional<double> alpha(std::string_view module) const;

  std::optional<double> common_;
  bool rank_stabilized_ = false;
  std::vector<std::optional<double>> alphas_;                // of alpha_pattern, in its order
  std::map<std::string, std::size_t, std::less<>> literal_;  // indexes of names without special characters
  std::vector<Expression> expressions_;                      // of the others
  std::optional<std::string> unknown_;
};

}  // namespace safetensors::cli
