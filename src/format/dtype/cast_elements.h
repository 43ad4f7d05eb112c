// The parts that the loops of all casts have in common.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace safetensors::format {

// Elements per loop. GCC at -O2 makes vector code only of loops with a constant count.
inline constexpr std::size_t kLoopElements = 128;

template <class Bits>
[[gnu::always_inline]] inline Bits swap_if_big_endian(Bits bits) noexcept {
  if constexpr (std::endian::native == std::endian::little || sizeof(Bits) == 1) return bits;
  std::uint64_t swapped = 0;
  for (std::size_t i = 0; i < sizeof(Bits); ++i) swapped = swapped << 8 | (std::uint64_t{bits} >> (8 * i) & 0xFF);
  return static_cast<Bits>(swapped);
}

// The bits of an element, which is little-endian on every machine. The memory needs no alignment.
template <class Bits>
[[gnu::always_inline]] inline Bits load_element(const std::byte* in) noexcept {
  Bits bits;
  std::memcpy(&bits, in, sizeof bits);
  return swap_if_big_endian(bits);
}

}  // namespace safetensors::format
