// Checks that no two destinations of a plan overlap.
#pragma once

#include <span>

#include "plan/plan_item.h"

namespace safetensors::plan {

// Error: overlapping_destination. Its message names both tensors. May throw std::bad_alloc.
[[nodiscard]] Status check_destinations(std::span<const PlanItem> items);

}  // namespace safetensors::plan
