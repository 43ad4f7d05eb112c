// The blocks of a BumpAllocator.
#include "base/bump_allocator.h"

#include <algorithm>

namespace safetensors::base {

BumpAllocator::~BumpAllocator() {
  for (const Block& block : blocks_) upstream_->deallocate(block.start, block.size, kAlignment);
}

// A new shared block abandons the unused rest of the block before it. Only a request that does not fit into that rest
// opens a shared block, and such a request has at most max(kOwnBlock, block_size / 16) bytes. So the abandoned rest
// is smaller than that.
void* BumpAllocator::allocate_block(std::size_t size) {
  const bool own = size > block_size_ || size > std::max(kOwnBlock, block_size_ / 16);
  const std::size_t block_size = own ? std::max<std::size_t>(size, 1) : block_size_;
  // Reserve before the allocation: an exception after it would leak the block.
  if (blocks_.size() == blocks_.capacity()) blocks_.reserve(std::max<std::size_t>(8, 2 * blocks_.size()));
  void* start = upstream_->allocate(block_size, kAlignment);
  blocks_.push_back({start, block_size});
  if (!own) {
    next_ = reinterpret_cast<std::uintptr_t>(start) + size;
    end_ = reinterpret_cast<std::uintptr_t>(start) + block_size;
  }
  return start;
}

}  // namespace safetensors::base
