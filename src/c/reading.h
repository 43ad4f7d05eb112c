// The options of reads in C, for the functions of read plans and of packed buffers.
#pragma once

#include <safetensors/read_plan.h>

#include "c/support.h"

namespace safetensors::c {

// Errors: invalid_argument, and those of options_of(). May throw std::bad_alloc.
[[nodiscard]] Result<ReadOptions> read_options_of(const safetensors_read_options* given);

}  // namespace safetensors::c
