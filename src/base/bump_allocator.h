// A bump allocator whose blocks never move and are at most a sixteenth empty: memory follows use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <new>
#include <span>
#include <vector>

namespace safetensors::base {

// Holds trivially destructible values only; all of them are freed with the arena. Functions throw std::bad_alloc.
class BumpAllocator {
 public:
  // block_size: the bytes of a block. A request for more than kOwnBlock and more than a sixteenth of that gets a block
  // of its own, exactly as large as the request.
  BumpAllocator(std::pmr::memory_resource* upstream, std::size_t block_size) noexcept
      : upstream_(upstream), block_size_(block_size) {}
  BumpAllocator(const BumpAllocator&) = delete;
  BumpAllocator& operator=(const BumpAllocator&) = delete;
  ~BumpAllocator() {
    for (const Block& block : blocks_) upstream_->deallocate(block.start, block.size, kAlignment);
  }

  // Uninitialized. Throws std::bad_alloc, also where the bytes have no std::size_t, as they may on a 32-bit machine.
  template <class T>
  [[nodiscard]] T* allocate(std::size_t count) {
    static_assert(alignof(T) <= kAlignment);
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(allocate_bytes(count * sizeof(T), alignof(T)));
  }

  [[nodiscard]] std::pmr::memory_resource* upstream() const noexcept { return upstream_; }

 private:
  static constexpr std::size_t kAlignment = alignof(std::max_align_t);
  // Smaller requests share blocks, however small the blocks are: a block of its own costs a call of upstream.
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

  // The request that does not fit into the rest of a block is what leaves that rest empty. So a large request never
  // opens a block for others: then at most a sixteenth of every block but the last stays empty.
  void* allocate_block(std::size_t size) {
    const bool own = size > block_size_ || size > std::max(kOwnBlock, block_size_ / 16);
    const std::size_t block_size = own ? std::max<std::size_t>(size, 1) : block_size_;
    // Before the block, which would be lost if this threw.
    if (blocks_.size() == blocks_.capacity()) blocks_.reserve(std::max<std::size_t>(8, 2 * blocks_.size()));
    void* start = upstream_->allocate(block_size, kAlignment);
    blocks_.push_back({start, block_size});
    if (!own) {
      next_ = reinterpret_cast<std::uintptr_t>(start) + size;
      end_ = reinterpret_cast<std::uintptr_t>(start) + block_size;
    }
    return start;
  }

  std::pmr::memory_resource* upstream_;
  std::size_t block_size_;
  std::vector<Block> blocks_;
  std::uintptr_t next_ = 0;
  std::uintptr_t end_ = 0;
};

}  // namespace safetensors::base
