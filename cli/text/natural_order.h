// Orders names as people expect: layer.2 before layer.10.
#pragma once

#include <string_view>

namespace safetensors::cli {

// Returns whether a comes before b. Sequences of digits are compared as numbers of any length, all else by bytes. Names
// that differ in leading zeros only are compared by bytes, so the order is total.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b) noexcept;

}  // namespace safetensors::cli
