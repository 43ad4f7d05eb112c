// What an Arena stands on.
#pragma once

#include <safetensors/arena.h>

#include "os/huge_page_allocator.h"

namespace safetensors {
inline namespace v0 {
namespace detail {

struct ArenaState {
  os::HugePageAllocator pages;
};

// The one way into the private part of Arena. Null for one that was moved from, or had no memory for itself.
struct ArenaAccess {
  static os::HugePageAllocator* pages(Arena& arena) noexcept { return arena.state_ ? &arena.state_->pages : nullptr; }
};

}  // namespace detail
}  // namespace v0
}  // namespace safetensors
