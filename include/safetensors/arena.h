// Memory that results are read into, kept between loads.
#pragma once

#include <safetensors/export.h>

#include <cstdint>
#include <memory>

namespace safetensors {
inline namespace v0 {

class Arena;

namespace detail {
struct ArenaAccess;
struct ArenaState;
}  // namespace detail

// An allocator of huge pages that a ReadPlan may be given (ReadOptions::arena), so that the next load finds memory that
// was touched before. Memory comes back by itself: a page of 2 MiB is free when the last Array on it is gone, and
// nothing live is ever given out again. An Array that stays keeps its own pages, not the rest of its model. Free pages
// stay for the next load, and go to the system only where its tensors fit on none of them, for as many new ones: an
// Arena never reserves more than was live at once, in whole pages.
// Arrays outlive the Arena. const calls from any thread; plans that use one Arena may run at once. In a forked child:
// not if another thread was about to allocate from it when the process forked.
class Arena {
 public:
  // Needs a little memory. Without it the Arena keeps nothing: results come from the system.
  SAFETENSORS_API Arena() noexcept;
  SAFETENSORS_API Arena(Arena&&) noexcept;
  SAFETENSORS_API Arena& operator=(Arena&&) noexcept;
  // Free pages go to the system at once, the others when their last Array does.
  SAFETENSORS_API ~Arena();

  // In bytes: what is held of the system's, and how much of that is in pages that an Array is on. The first is never
  // more than the second was at its highest, unless the system refuses to take some back.
  [[nodiscard]] SAFETENSORS_API std::uint64_t reserved_bytes() const noexcept;
  [[nodiscard]] SAFETENSORS_API std::uint64_t live_bytes() const noexcept;

  // Gives the free pages to the system; they stay reserved. Returns how many bytes they are.
  SAFETENSORS_API std::uint64_t trim() noexcept;

 private:
  friend struct detail::ArenaAccess;
  std::unique_ptr<detail::ArenaState> state_;
};

}  // namespace v0
}  // namespace safetensors
