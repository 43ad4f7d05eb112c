// Bump allocator: takes memory from its upstream in blocks and hands it out front to back. Blocks never move. At most
// 1/16 of every block, or 4 KiB of a small block, stays unused. So the memory in use follows the memory requested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <vector>

#include "base/exceptions.h"
#include "base/memory_resource.h"

namespace safetensors::base {

// Holds trivially destructible values only, because it runs no destructors. The destructor frees all memory at once.
// Functions throw std::bad_alloc. Not thread-safe.
class BumpAllocator {
 public:
  // block_size: bytes per block. A request larger than both kOwnBlock and block_size / 16 gets a block of its own,
  // which is exactly as large as the request. So does a request larger than block_size. upstream must outlive this.
  BumpAllocator(MemoryResource* upstream, std::size_t block_size) noexcept
      : upstream_(upstream), block_size_(block_size) {}
  BumpAllocator(const BumpAllocator&) = delete;
  BumpAllocator& operator=(const BumpAllocator&) = delete;
  ~BumpAllocator();

  // Returns uninitialized memory. Also throws std::bad_alloc if the size in bytes does not fit into std::size_t, which
  // can happen on a 32-bit machine.
  template <class T>
  [[nodiscard]] T* allocate(std::size_t count) {
    static_assert(alignof(T) <= kAlignment);
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) raise(std::bad_alloc());
    return static_cast<T*>(allocate_bytes(count * sizeof(T), alignof(T)));
  }

  [[nodiscard]] MemoryResource* upstream() const noexcept { return upstream_; }

 private:
  static constexpr std::size_t kAlignment = alignof(std::max_align_t);
  // In bytes. Requests up to this size share blocks if the block size allows it, because a block of its own costs a
  // call to upstream.
  static constexpr std::size_t kOwnBlock = 4096;
  struct Block {
    void* start;
    std::size_t size;
  };

  void* allocate_bytes(std::size_t size, std::size_t alignment) {
    const std::uintptr_t start = (next_ + alignment - 1) & ~static_cast<std::uintptr_t>(alignment - 1);
    if (start > end_ || size > end_ - start) return allocate_block(size);
    next_ = start + size;
    return reinterpret_cast<void*>(start);
  }

  void* allocate_block(std::size_t size);

  MemoryResource* upstream_;
  std::size_t block_size_;
  std::vector<Block> blocks_;
  std::uintptr_t next_ = 0;
  std::uintptr_t end_ = 0;
};

}  // namespace safetensors::base
