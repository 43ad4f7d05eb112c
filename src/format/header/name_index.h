// A hash index of keys. It is made once, after the last key, so it never grows and never has to be copied.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bump_allocator.h"
#include "base/cancellation.h"
#include "base/chunked_vector.h"
#include "base/hash.h"

namespace safetensors::format {

// A range of a text. 32 bits are enough: no header is longer than 4 GiB - 1 byte, and no index either.
struct TextRange {
  std::uint32_t start;
  std::uint32_t size;
};

// Open addressing with linear probing, at most 2/3 full. A slot takes 4 bytes, so the slots of 100,000 names stay in
// the cache of one core. The hash is keyed, so a hostile file cannot choose names that collide.
class NameIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // Adds the hash of the next key, which gets the index size(). max_count: an upper bound for the number of keys to
  // come, as for ChunkedVector::push(). Throws std::bad_alloc.
  void push(base::BumpAllocator& allocator, std::uint32_t hash, std::size_t max_count) {
    hashes_.push(allocator, max_count) = hash;
  }

  [[nodiscard]] std::size_t size() const noexcept { return hashes_.size(); }

  // Removes the keys and keeps their memory.
  void clear() noexcept { hashes_.clear(); }

  // Makes the index after the last push(). key_at(i) returns key i. Returns the index of the first key that equals an
  // earlier key, or kNone. find() must not be used after build() found such a key, or after a cancellation (may be
  // null). Throws std::bad_alloc.
  template <class KeyAt>
  [[nodiscard]] std::uint32_t build(base::BumpAllocator& allocator, const KeyAt& key_at,
                                    base::Cancellation* cancellation = nullptr) {
    constexpr std::size_t kPrefetchKeys = 16;  // each slot is a cache miss, so slots are fetched this many keys ahead
    constexpr std::size_t kCheckMask = 0xFFF;  // the cancellation is asked every 4096 keys
    const std::size_t count = hashes_.size();
    size_ = count + count / 2 + 1;
    if (size_ > capacity_) slots_ = allocator.allocate<std::uint32_t>(static_cast<std::size_t>(capacity_ = size_));
    std::memset(slots_, 0, static_cast<std::size_t>(size_) * sizeof *slots_);
    for (std::size_t i = 0; i < count; ++i) {
      if ((i & kCheckMask) == kCheckMask && cancellation != nullptr && cancellation->requested()) return kNone;
      ++probes_;
      if (i + kPrefetchKeys < count) __builtin_prefetch(slots_ + home(hashes_[i + kPrefetchKeys]), 1);
      std::size_t slot = home(hashes_[i]);
      for (; slots_[slot] != 0; slot = after(slot), ++probes_) {
        const std::uint32_t other = slots_[slot] - 1;
        if (hashes_[other] == hashes_[i] && key_at(other) == key_at(i)) return static_cast<std::uint32_t>(i);
      }
      slots_[slot] = static_cast<std::uint32_t>(i) + 1;
    }
    return kNone;
  }

  // The number of slots that all calls of build() read. It grows with the square of the number of keys that collide.
  [[nodiscard]] std::uint64_t probes() const noexcept { return probes_; }

  // Returns the index of a key, or kNone. hash: the hash of the key, made with the same HashKey. Thread-safe.
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
  // Maps a hash to [0, size_) with a multiplication, which is faster than a division.
  [[nodiscard]] std::size_t home(std::uint32_t hash) const noexcept {
    return static_cast<std::size_t>(hash * size_ >> 32);
  }
  [[nodiscard]] std::size_t after(std::size_t slot) const noexcept { return slot + 1 == size_ ? 0 : slot + 1; }

  base::ChunkedVector<std::uint32_t> hashes_;
  std::uint32_t* slots_ = nullptr;  // index of a key plus 1, or 0 for an empty slot
  std::uint64_t size_ = 0;          // slots in use by the current index
  std::uint64_t capacity_ = 0;      // slots allocated
  std::uint64_t probes_ = 0;
};

}  // namespace safetensors::format
