// A list that grows by chunks in an BumpAllocator: elements never move, nothing is copied, nothing doubles.
#pragma once

#include "base/bump_allocator.h"

namespace safetensors::base {

template <class T>
class ChunkedVector {
 public:
  // `most` bounds how many elements can come: a chunk is never larger than that. It may not grow, also after clear().
  T& push(BumpAllocator& arena, std::size_t most) {
    if ((size_ & kMask) == 0 && chunks_.size() == size_ >> kShift) open_chunk(arena, most);
    const std::size_t index = size_++;
    return chunks_[index >> kShift][index & kMask];
  }
  // Keeps the chunks for what comes next.
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

  void open_chunk(BumpAllocator& arena, std::size_t most) {
    chunks_.push_back(nullptr);
    chunks_.back() = arena.allocate<T>(std::min(kMask + 1, most));
  }

  std::vector<T*> chunks_;
  std::size_t size_ = 0;
};

}  // namespace safetensors::base
