// An index of keys by a keyed hash: made once, when all keys are known, so that it is as small as it can be.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bump_allocator.h"
#include "base/cancellation.h"
#include "base/chunked_vector.h"
#include "base/hash.h"

namespace safetensors::format {

// Open addressing; a slot is four bytes, so that 100,000 names stay in a core's own cache.
class NameIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // Key number hashes().size() has this hash. `most` bounds how many more can come. Throws std::bad_alloc.
  void push(base::BumpAllocator& arena, std::uint32_t hash, std::size_t most) { hashes_.push(arena, most) = hash; }

  [[nodiscard]] std::size_t size() const noexcept { return hashes_.size(); }

  // Forgets the keys and keeps their memory.
  void clear() noexcept { hashes_.clear(); }

  // After all keys were pushed. key_at(i) is key i. Returns the first key that equals one before it, or kNone; the
  // index is of no use when there is one, or when the cancellation (may be null) has stopped it. Throws std::bad_alloc.
  template <class KeyAt>
  [[nodiscard]] std::uint32_t build(base::BumpAllocator& arena, const KeyAt& key_at,
                                    base::Cancellation* cancellation = nullptr) {
    constexpr std::size_t kAhead = 16;    // slots are fetched this early: each is a cache miss of its own
    constexpr std::size_t kLook = 0xFFF;  // every 4096 keys
    const std::size_t count = hashes_.size();
    size_ = count + count / 2 + 1;
    if (size_ > room_) slots_ = arena.allocate<std::uint32_t>(static_cast<std::size_t>(room_ = size_));
    std::memset(slots_, 0, static_cast<std::size_t>(size_) * sizeof *slots_);
    for (std::size_t i = 0; i < count; ++i) {
      if ((i & kLook) == kLook && cancellation != nullptr && cancellation->requested()) return kNone;
      ++probes_;
      if (i + kAhead < count) __builtin_prefetch(slots_ + home(hashes_[i + kAhead]), 1);
      std::size_t slot = home(hashes_[i]);
      for (; slots_[slot] != 0; slot = after(slot), ++probes_) {
        const std::uint32_t other = slots_[slot] - 1;
        if (hashes_[other] == hashes_[i] && key_at(other) == key_at(i)) return static_cast<std::uint32_t>(i);
      }
      slots_[slot] = static_cast<std::uint32_t>(i) + 1;
    }
    return kNone;
  }

  // Slots that all calls of build() looked at. Keys that collide make it grow with their square.
  [[nodiscard]] std::uint64_t probes() const noexcept { return probes_; }

  template <class KeyAt>
  [[nodiscard]] std::uint32_t find(std::string_view key, std::uint32_t hash, const KeyAt& key_at) const noexcept {
    if (slots_ == nullptr) return kNone;
    for (std::size_t slot = home(hash); slots_[slot] != 0; slot = after(slot)) {
      const std::uint32_t index = slots_[slot] - 1;
      if (hashes_[index] == hash && key_at(index) == key) return index;
    }
    return kNone;
  }

 private:
  [[nodiscard]] std::size_t home(std::uint32_t hash) const noexcept {
    return static_cast<std::size_t>(hash * size_ >> 32);
  }
  [[nodiscard]] std::size_t after(std::size_t slot) const noexcept { return slot + 1 == size_ ? 0 : slot + 1; }

  base::ChunkedVector<std::uint32_t> hashes_;
  std::uint32_t* slots_ = nullptr;  // index + 1, or 0
  std::uint64_t size_ = 0;
  std::uint64_t room_ = 0;  // for slots
  std::uint64_t probes_ = 0;
};

}  // namespace safetensors::format
