// A list that grows by chunks of 1024 elements from a BumpAllocator. Elements never move and are never copied. The
// memory does not double when the list grows, unlike that of std::vector.
#pragma once

#include "base/bump_allocator.h"

#include <algorithm>

namespace safetensors::base {

template <class T>
class ChunkedVector {
 public:
  // Appends an uninitialized element. max_count: an upper bound for the number of elements to come, this one included.
  // A chunk has capacity for at most that many. max_count must not grow from call to call, nor after clear(), because
  // clear() keeps the chunks. Throws std::bad_alloc.
  T& push(BumpAllocator& allocator, std::size_t max_count) {
    if ((size_ & kMask) == 0 && chunks_.size() == size_ >> kShift) open_chunk(allocator, max_count);
    const std::size_t index = size_++;
    return chunks_[index >> kShift][index & kMask];
  }
  // Removes all elements and keeps the chunks for the next ones.
  void clear() noexcept { size_ = 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T& operator[](std::size_t index) noexcept { return chunks_[index >> kShift][index & kMask]; }
  [[nodiscard]] const T& operator[](std::size_t index) const noexcept {
    return chunks_[index >> kShift][index & kMask];
  }

 private:
  static constexpr std::size_t kShift = 10;
  static constexpr std::size_t kMask = (std::size_t{1} << kShift) - 1;

  void open_chunk(BumpAllocator& allocator, std::size_t max_count) {
    chunks_.push_back(nullptr);
    chunks_.back() = allocator.allocate<T>(std::min(kMask + 1, max_count));
  }

  std::vector<T*> chunks_;
  std::size_t size_ = 0;
};

}  // namespace safetensors::base
