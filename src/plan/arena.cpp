// The public Arena. os/huge_page_allocator.h describes the allocator that it uses.
#include <safetensors/arena.h>

#include <new>

#include "plan/arena.h"

namespace safetensors {
inline namespace v0 {

Arena::Arena() noexcept : state_(new (std::nothrow) State) {}
Arena::Arena(Arena&&) noexcept = default;
Arena& Arena::operator=(Arena&&) noexcept = default;
Arena::~Arena() = default;

std::uint64_t Arena::reserved_bytes() const noexcept {
  return state_ ? state_->pages.reserved_bytes() : 0;
}

std::uint64_t Arena::live_bytes() const noexcept {
  return state_ ? state_->pages.live_bytes() : 0;
}

std::uint64_t Arena::trim() noexcept {
  return state_ ? state_->pages.trim() : 0;
}

}  // namespace v0
}  // namespace safetensors
