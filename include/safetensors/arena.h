/// @file
/// Memory for results that is kept between loads.
#pragma once

#include <safetensors/export.h>

#include <cstdint>
#include <memory>

namespace safetensors {
inline namespace v0 {

class Arena;

namespace detail {
template <class T>
struct Access;
}  // namespace detail

/// An allocator of huge pages for the results of a ReadPlan. Set ReadOptions::arena to use it.
///
/// The next load finds memory that the process has already touched, and needs no new pages. Memory returns to the Arena
/// by itself: a page of 2 MiB is free when the last Array on it is gone. Live memory is never handed out again. An
/// Array that you keep holds only its own pages, not the rest of its model.
///
/// Free pages stay for the next load. If the tensors of a load fit on none of the free pages, the Arena returns as many
/// free pages to the system as it takes new ones. Therefore it never reserves more whole pages than were live at once.
///
/// Arrays may outlive the Arena. Call const functions from any thread. Several plans may use one Arena at the same
/// time. In a forked child, do not use an Arena if another thread was about to allocate from it during the fork.
class Arena {
 public:
  /// Allocates a small state. If that fails, the Arena keeps nothing and results use memory from the system.
  SAFETENSORS_API Arena() noexcept;
  /// @{
  /// Moves the memory. An Arena that was moved from keeps nothing.
  SAFETENSORS_API Arena(Arena&&) noexcept;
  SAFETENSORS_API Arena& operator=(Arena&&) noexcept;
  /// @}
  /// Returns free pages to the system at once. Each other page returns with its last Array.
  SAFETENSORS_API ~Arena();

  /// Returns the bytes that the Arena holds from the system, in whole pages. This is at most the highest value that
  /// live_bytes() had, unless the system refuses to take memory back.
  [[nodiscard]] SAFETENSORS_API std::uint64_t reserved_bytes() const noexcept;
  /// Returns the bytes of the pages that hold at least one Array.
  [[nodiscard]] SAFETENSORS_API std::uint64_t live_bytes() const noexcept;

  /// Gives the memory of free pages back to the system. reserved_bytes() still counts it. Returns the bytes given back.
  SAFETENSORS_API std::uint64_t trim() noexcept;

 private:
  friend struct detail::Access<Arena>;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace safetensors
