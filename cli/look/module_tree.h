// Groups tensors by the modules in their names, and folds modules that repeat.
#pragma once

#include "console.h"
#include "json_output.h"

#include <safetensors/header.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace safetensors::cli {

// Shows the modules of tensors: a table with one line per module, or the member "modules". tensors: in natural order,
// so that modules with the same content have it in the same order. Children have this order, or with by_size the
// largest comes first. At most 16 levels are split. bytes: those of all tensors, for shares.
void show_modules(Console& console, Json* json, std::span<const TensorInfo* const> tensors, bool by_size,
                  std::uint64_t bytes, bool heading);

}  // namespace safetensors::cli
