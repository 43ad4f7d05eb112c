/// @file
/// Defines Allocator: memory of the caller for results.
#pragma once

#include <safetensors/callback.h>

#include <cstddef>

namespace safetensors {
inline namespace v0 {

/// Functions of the caller that allocate and free memory for results. ReadOptions::allocator takes one. Set both
/// functions, or none.
///
/// @code
/// options.allocator = {
///     .allocate = [&pool](std::size_t size, std::size_t alignment) { return pool.take(size, alignment); },
///     .deallocate = [&pool](void* memory, std::size_t size) { pool.give_back(memory, size); },
/// };
/// @endcode
///
/// While allocate() waits, its thread must not run other tasks of the same read.
///
/// Thread-safety: threads call deallocate() at any time, also while another thread is in allocate() or deallocate().
struct Allocator {
  /// Returns memory of `size` bytes whose address is a multiple of `alignment`, a power of two. Neither is 0. A null
  /// pointer or an exception means that there is no memory (Errc::out_of_memory).
  Callback<void*(std::size_t size, std::size_t alignment)> allocate = nullptr;
  /// Frees the result of one call of allocate(), which had this `size`. Called once for each such result, when the last
  /// Array of it is gone, in the thread where that happens. It must not throw. The library keeps a copy of this
  /// function until then.
  Callback<void(void* memory, std::size_t size)> deallocate = nullptr;
};

}  // namespace v0
}  // namespace safetensors
