// The options --match and --exclude of all verbs that choose tensors by their names.
#pragma once

#include "arguments.h"

#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

inline constexpr Option kExcludeOption = {"--exclude", "GLOB",
                                          "leave out tensors whose names match; may be\n"
                                          "given several times"};

struct Selection {
  std::vector<std::string> match;
  std::vector<std::string> exclude;

  // Binds both options. This object must outlive Arguments::parse().
  void bind(Arguments& arguments);
  [[nodiscard]] bool empty() const { return match.empty() && exclude.empty(); }
  // Returns true if a pattern of --match matches the name, and no pattern of --exclude matches it. Without --match,
  // every name matches.
  [[nodiscard]] bool selects(std::string_view name) const;
  // A hint for a selection of nothing: " (a pattern is for the whole name: try '*norm*')". Empty if the patterns of
  // --match have wildcards.
  [[nodiscard]] std::string hint() const;
};

// The hint for one pattern.
[[nodiscard]] std::string pattern_hint(std::string_view glob);

}  // namespace safetensors::cli
