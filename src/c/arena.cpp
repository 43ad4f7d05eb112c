// Arenas in C: memory of results that is kept between loads.
#include "c/support.h"

namespace {
using safetensors::Status;
using namespace safetensors::c;
}  // namespace

extern "C" {

safetensors_status safetensors_arena_create(safetensors_arena** arena, safetensors_error* error) {
  clear(arena);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{arena, "arena"}}); !status) return status;
    *arena = new safetensors_arena{std::make_shared<safetensors::Arena>()};
    return {};
  });
}

void safetensors_arena_free(safetensors_arena* arena) {
  delete arena;
}

safetensors_status safetensors_arena_size(const safetensors_arena* arena, uint64_t* reserved, uint64_t* live,
                                          safetensors_error* error) {
  clear(reserved, live);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{arena, "arena"}}); !status) return status;
    if (reserved) *reserved = arena->arena->reserved_bytes();
    if (live) *live = arena->arena->live_bytes();
    return {};
  });
}

safetensors_status safetensors_arena_trim(safetensors_arena* arena, uint64_t* trimmed, safetensors_error* error) {
  clear(trimmed);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{arena, "arena"}}); !status) return status;
    const uint64_t bytes = arena->arena->trim();
    if (trimmed) *trimmed = bytes;
    return {};
  });
}

}  // extern "C"
