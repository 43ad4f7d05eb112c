// The options of reads in C, for the functions of read plans and of packed buffers.
#pragma once

#include <safetensors/read_plan.h>

#include <memory>

#include "c/support.h"

namespace safetensors::c {

struct Reading {
  ReadOptions options;
  std::shared_ptr<safetensors::Arena> arena;  // keeps options.arena alive
};

// Errors: invalid_argument, and those of options_of(). May throw std::bad_alloc.
[[nodiscard]] Result<Reading> reading_of(const safetensors_read_options* given);

}  // namespace safetensors::c
