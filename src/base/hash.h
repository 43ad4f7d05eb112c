// A seeded hash for text from strangers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace safetensors::base {

// Both multiplicands are hidden behind secrets of this one seed, so names cannot be made to collide beforehand.
struct HashSeed {
  std::uint64_t a = 0x9E3779B97F4A7C15u;
  std::uint64_t b = 0xD1B54A32D192ED03u;

  [[nodiscard]] static HashSeed random() noexcept;
};

[[nodiscard]] inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

[[nodiscard]] inline std::uint32_t hash(std::string_view text, const HashSeed& seed) noexcept {
  const char* at = text.data();
  std::size_t left = text.size();
  std::uint64_t state = seed.a ^ left * 0xA0761D6478BD642Fu;
  const auto load = [](const char* from, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, size);
    return value;
  };
  for (; left > 16; at += 16, left -= 16) state = mix(load(at, 8) ^ seed.a ^ state, load(at + 8, 8) ^ seed.b);
  if (left >= 8) {
    state = mix(load(at, 8) ^ seed.a ^ state, load(at + left - 8, 8) ^ seed.b);
  } else if (left >= 4) {
    state = mix(load(at, 4) ^ seed.a ^ state, load(at + left - 4, 4) ^ seed.b);
  } else if (left > 0) {
    const auto byte = [at](std::size_t i) { return static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])); };
    state = mix((byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16) ^ seed.a ^ state, seed.b);
  }
  return static_cast<std::uint32_t>(mix(state ^ seed.b, seed.a | 1));
}

}  // namespace safetensors::base
