// SipHash: a keyed hash for text from untrusted files.
//
// An attacker who chooses the text but does not know the key cannot choose texts whose hashes collide. This is the
// claim of "SipHash: a fast short-input PRF" (Aumasson and Bernstein, 2012), and no published attack has broken it.
// Tables use SipHash-1-3, the variant with one round per word and three rounds at the end. The weaker variant is enough
// because an attacker on a table never sees a hash, only the time to parse a whole header. Python and Rust use the same
// variant for the same purpose.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/little_endian.h"

namespace safetensors::base {

// A secret of 128 bits. Every table has a key of its own.
struct HashKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;

  // Makes a new key from a secret of the process, which comes from the system's source of randomness. If the system has
  // none, the secret is the clock and an address, which an attacker could guess. Thread-safe.
  [[nodiscard]] static HashKey random() noexcept;
};

// Returns the ID of this process. Asks the system every time, because a stored ID would be wrong in the child of a
// fork.
[[nodiscard]] std::uint64_t process_id() noexcept;

// SipHash-c-d: c rounds per word of 8 bytes, d rounds at the end.
template <int kRoundsPerWord, int kFinalRounds>
class SipHash {
 public:
  [[nodiscard]] static std::uint64_t of(std::string_view text, const HashKey& key) noexcept {
    SipHash state(key);
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    std::size_t remaining = text.size();
    for (; remaining >= 8; bytes += 8, remaining -= 8) state.add(load_u64(bytes));
    state.add(last_word(bytes, remaining, text.size()));
    state.v2_ ^= 0xFF;
    for (int i = 0; i < kFinalRounds; ++i) state.round();
    return state.v0_ ^ state.v1_ ^ state.v2_ ^ state.v3_;
  }

 private:
  explicit SipHash(const HashKey& key) noexcept
      : v0_(key.k0 ^ 0x736F6D6570736575u),
        v1_(key.k1 ^ 0x646F72616E646F6Du),
        v2_(key.k0 ^ 0x6C7967656E657261u),
        v3_(key.k1 ^ 0x7465646279746573u) {}

  // Returns the `count` bytes after the last whole word, with the length of the text in the highest byte.
  [[nodiscard]] static std::uint64_t last_word(const std::byte* bytes, std::size_t count, std::size_t size) noexcept {
    const std::uint64_t length = static_cast<std::uint64_t>(size) << 56;
    if (count == 0) return length;
    // One load that ends where the text ends replaces a loop whose branch the processor cannot predict.
    if (size >= 8) return length | load_u64(bytes + count - 8) >> (64 - 8 * count);
    std::uint64_t word = length;
    for (std::size_t i = 0; i < count; ++i) word |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
    return word;
  }

  void add(std::uint64_t word) noexcept {
    v3_ ^= word;
    for (int i = 0; i < kRoundsPerWord; ++i) round();
    v0_ ^= word;
  }

  void round() noexcept {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32) + v3_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
};

// The hash of tables: the low 32 bits of SipHash-1-3.
[[nodiscard]] inline std::uint32_t hash(std::string_view text, const HashKey& key) noexcept {
  return static_cast<std::uint32_t>(SipHash<1, 3>::of(text, key));
}

}  // namespace safetensors::base
