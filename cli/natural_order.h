// The order of names for people: layer.2 before layer.10.
#pragma once

#include <string_view>

namespace safetensors::cli {

// Whether a stands before b. Runs of digits compare as numbers of any length, everything else by its bytes; names
// that differ only in leading zeros compare by their bytes, so the order is total.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b) noexcept;

}  // namespace safetensors::cli
