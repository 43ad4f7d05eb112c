// Defines the state of an Arena, and gives plans access to it.
#pragma once

#include <safetensors/arena.h>

#include "os/huge_page_allocator.h"

namespace safetensors {
inline namespace v0 {

struct Arena::State {
  os::HugePageAllocator pages;
};

namespace detail {

template <>
struct Access<Arena> {
  // Returns null if the arena was moved from, or if there was no memory for its state.
  static os::HugePageAllocator* pages(Arena& arena) noexcept { return arena.state_ ? &arena.state_->pages : nullptr; }
};

}  // namespace detail
}  // namespace v0
}  // namespace safetensors
