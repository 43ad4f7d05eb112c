// A set of keys by a seeded hash: open addressing, fixed size, eight bytes a slot.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/arena.h"
#include "base/hash.h"

namespace safetensors::format {

class NameIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // Room for `most` keys, at most 2^31. Throws std::bad_alloc.
  void reserve(base::Arena& arena, std::size_t most) {
    size_ = most + most / 3 + 2;
    slots_ = arena.allocate<Slot>(size_);
    std::memset(slots_, 0, size_ * sizeof(Slot));
  }
  [[nodiscard]] bool reserved() const noexcept { return slots_ != nullptr; }

  // The index of an equal key that is there, or kNone after putting this one in. key_at(i) is key i.
  template <class KeyAt>
  std::uint32_t insert(std::string_view key, std::uint32_t hash, std::uint32_t index, const KeyAt& key_at) noexcept {
    Slot* slot = first(hash);
    for (; slot->taken != 0; slot = after(slot)) {
      if (slot->hash == hash && key_at(slot->taken - 1) == key) return slot->taken - 1;
    }
    *slot = {hash, index + 1};
    return kNone;
  }

  template <class KeyAt>
  [[nodiscard]] std::uint32_t find(std::string_view key, std::uint32_t hash, const KeyAt& key_at) const noexcept {
    if (slots_ == nullptr) return kNone;
    for (const Slot* slot = first(hash); slot->taken != 0; slot = after(slot)) {
      if (slot->hash == hash && key_at(slot->taken - 1) == key) return slot->taken - 1;
    }
    return kNone;
  }

 private:
  struct Slot {
    std::uint32_t hash;
    std::uint32_t taken;  // index + 1, or 0
  };

  [[nodiscard]] Slot* first(std::uint32_t hash) const noexcept { return slots_ + (hash * size_ >> 32); }
  [[nodiscard]] Slot* after(const Slot* slot) const noexcept {
    const auto next = static_cast<std::size_t>(slot - slots_) + 1;
    return slots_ + (next == size_ ? 0 : next);
  }

  Slot* slots_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace safetensors::format
