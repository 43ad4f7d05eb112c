// Checks that no two destinations of a plan overlap.
#pragma once

#include <span>

#include "plan/item.h"

namespace safetensors::plan {

// Error: overlapping_destination. Its message names both tensors. May throw std::bad_alloc.
[[nodiscard]] Status check_destinations(std::span<const Item> items);

}  // namespace safetensors::plan
