// Reads and writes fixed-width little-endian integers. The bytes need no alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace safetensors::base {

[[nodiscard]] inline std::uint64_t load_u64(const std::byte* bytes) noexcept {
  std::uint64_t value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, bytes, sizeof value);
  } else {
    for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<std::uint64_t>(bytes[i]);
  }
  return value;
}

inline void store_u64(std::byte* bytes, std::uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
}

}  // namespace safetensors::base
