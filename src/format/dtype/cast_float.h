// The bit layouts of floats, and conversions between them. The conversions use integer arithmetic without branches. So
// compilers turn loops over them into vector code, and no floating-point mode changes the result.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace safetensors::format {

// kMantissa: bits of the mantissa, without the hidden bit. kInfinity: larger magnitudes are NaN. kOverflow: the code of
// a number that is too large. kNan: a quiet NaN. kPayload: a NaN keeps the highest bits of its payload.
// kNanIsMinusZero: the code of -0 is the only NaN, and there is no infinity.
struct Float64 {
  using Bits = std::uint64_t;
  using Number = double;
  static constexpr unsigned kMantissa = 52;
  static constexpr int kBias = 1023;
  static constexpr Bits kInfinity = 0x7FF0000000000000, kNan = 0x7FF8000000000000;
};
// The upper half of a Float64. Its last bit is also set if the lower half is not zero (a sticky bit). It rounds to 18
// and fewer bits of mantissa exactly as the whole Float64 does, in half the space.
struct Float64Upper {
  using Bits = std::uint32_t;
  static constexpr unsigned kMantissa = 20;
  static constexpr int kBias = 1023;
  static constexpr Bits kInfinity = 0x7FF00000;
};
struct Float32 {
  using Bits = std::uint32_t;
  using Number = float;
  static constexpr unsigned kMantissa = 23;
  static constexpr int kBias = 127;
  static constexpr Bits kInfinity = 0x7F800000, kOverflow = kInfinity, kNan = 0x7FC00000;
  static constexpr bool kPayload = true, kNanIsMinusZero = false;
};
struct Float16 {
  using Bits = std::uint16_t;
  static constexpr unsigned kMantissa = 10;
  static constexpr int kBias = 15;
  static constexpr Bits kInfinity = 0x7C00, kOverflow = kInfinity, kNan = 0x7E00;
  static constexpr bool kPayload = true, kNanIsMinusZero = false;
};
struct BFloat16 {
  using Bits = std::uint16_t;
  static constexpr unsigned kMantissa = 7;
  static constexpr int kBias = 127;
  static constexpr Bits kInfinity = 0x7F80, kOverflow = kInfinity, kNan = 0x7FC0;
  static constexpr bool kPayload = false, kNanIsMinusZero = false;
};
struct Float8E5M2 {
  using Bits = std::uint8_t;
  static constexpr unsigned kMantissa = 2;
  static constexpr int kBias = 15;
  static constexpr Bits kInfinity = 0x7C, kOverflow = kInfinity, kNan = 0x7F;
  static constexpr bool kPayload = false, kNanIsMinusZero = false;
};
struct Float8E4M3 {
  using Bits = std::uint8_t;
  static constexpr unsigned kMantissa = 3;
  static constexpr int kBias = 7;
  static constexpr Bits kInfinity = 0x7F;  // E4M3 has no infinity. This is its only NaN.
  // The largest number, as in torch since 2.12. Older torch and ml_dtypes have NaN here.
  static constexpr Bits kOverflow = 0x7E, kNan = 0x7F;
  static constexpr bool kPayload = false, kNanIsMinusZero = false;
};
struct Float8E5M2Fnuz {
  using Bits = std::uint8_t;
  static constexpr unsigned kMantissa = 2;
  static constexpr int kBias = 16;
  static constexpr Bits kOverflow = 0x80, kNan = 0x80;
  static constexpr bool kPayload = false, kNanIsMinusZero = true;
};
struct Float8E4M3Fnuz {
  using Bits = std::uint8_t;
  static constexpr unsigned kMantissa = 3;
  static constexpr int kBias = 8;
  static constexpr Bits kOverflow = 0x80, kNan = 0x80;
  static constexpr bool kPayload = false, kNanIsMinusZero = true;
};
// Powers of two from 2^-127 on, without a sign. 0xFF is NaN.
struct Float8E8M0 {
  using Bits = std::uint8_t;
};

template <class Float>
inline constexpr unsigned kSignBit = 8 * sizeof(typename Float::Bits) - 1;  // index of the sign bit

// Returns condition ? yes : no without a branch, because a branch would keep a loop from becoming vector code.
template <class Bits>
[[gnu::always_inline]] inline Bits select(bool condition, Bits yes, Bits no) noexcept {
  const Bits mask = Bits{0} - Bits{condition};
  return (yes & mask) | (no & ~mask);
}

// Converts to more bits. The result is exact.
template <class From, class To>
[[gnu::always_inline]] inline typename To::Bits widen(typename From::Bits code) noexcept {
  using Bits = typename To::Bits;
  constexpr unsigned shift = To::kMantissa - From::kMantissa;
  constexpr auto rebias = Bits{To::kBias - From::kBias} << To::kMantissa;
  // The unit of subnormal numbers. It is normal in To, so the product below is exact in every floating-point mode.
  constexpr auto unit = Bits{To::kBias - From::kBias + 1 - int{From::kMantissa}} << To::kMantissa;
  const Bits sign = Bits{code} >> kSignBit<From> << kSignBit<To>;
  const Bits magnitude = Bits{code} & ((Bits{1} << kSignBit<From>)-1);
  const auto whole = static_cast<typename To::Number>(static_cast<std::int32_t>(magnitude));
  const Bits small = std::bit_cast<Bits>(whole * std::bit_cast<typename To::Number>(unit));
  const Bits value = select(magnitude < (Bits{1} << From::kMantissa), small, (magnitude << shift) + rebias);
  if constexpr (From::kNanIsMinusZero) {
    return code == From::kNan ? To::kNan : value | sign;
  } else {
    const Bits special = magnitude >= From::kInfinity ? To::kInfinity : Bits{0};
    constexpr Bits largest = From::kInfinity == From::kNan ? From::kNan - 1 : From::kInfinity;
    const Bits nan = magnitude > largest ? To::kNan : Bits{0};
    return value | special | nan | sign;
  }
}

template <>
[[gnu::always_inline]] inline std::uint32_t widen<BFloat16, Float32>(std::uint16_t code) noexcept {
  return std::uint32_t{code} << 16;
}
template <>
[[gnu::always_inline]] inline std::uint32_t widen<Float8E8M0, Float32>(std::uint8_t code) noexcept {
  const std::uint32_t value = code == 0 ? std::uint32_t{0x00400000} : std::uint32_t{code} << 23;
  return code == 0xFF ? Float32::kNan : value;
}

// Rounds a magnitude to the mantissa and the exponent of To. It ignores overflow and NaN, which narrow() corrects.
//
// Adding (half - 1) plus the last kept bit before the shift rounds to nearest even. A carry out of the mantissa
// increments the exponent, which is the correct result.
template <class From, class To>
[[gnu::always_inline]] inline typename From::Bits round_magnitude(typename From::Bits magnitude) noexcept {
  using Bits = typename From::Bits;
  using Signed = std::make_signed_t<Bits>;
  constexpr unsigned cut = From::kMantissa - To::kMantissa;
  if constexpr (From::kBias == To::kBias) {
    return (magnitude + ((Bits{1} << (cut - 1)) - 1) + (magnitude >> cut & 1)) >> cut;
  } else {
    // A number below To's smallest normal one is shifted right further, at most until it is zero. A number that is
    // subnormal in From is zero in To, so the hidden bit that it gets here does no harm.
    constexpr Signed lowest = From::kBias - To::kBias + 1;  // exponent, in From, of To's smallest normal number
    const Signed exponent = static_cast<Signed>(magnitude >> From::kMantissa);
    const Signed below = std::clamp<Signed>(lowest - exponent, 0, Signed{To::kMantissa} + 2);
    const Bits shift = cut + static_cast<Bits>(below);
    const Bits above = static_cast<Bits>(std::max<Signed>(exponent - lowest, 0));
    const Bits front = Bits{1} << From::kMantissa;
    const Bits whole = (magnitude & (front - 1)) | front;
    const Bits rounded = (whole + (Bits{1} << shift >> 1) - 1 + (whole >> shift & 1)) >> shift;
    return (above << To::kMantissa) + rounded;
  }
}

// Converts to fewer bits, rounded to nearest even.
template <class From, class To>
[[gnu::always_inline]] inline typename To::Bits narrow(typename From::Bits bits) noexcept {
  using Bits = typename From::Bits;
  const Bits magnitude = bits & ((Bits{1} << kSignBit<From>)-1);
  const Bits sign = bits >> kSignBit<From> << kSignBit<To>;
  const Bits rounded = round_magnitude<From, To>(magnitude);
  const Bits number = rounded < To::kOverflow ? rounded : Bits{To::kOverflow};
  Bits nan = To::kNan;
  if constexpr (To::kPayload) {
    constexpr Bits payload = (Bits{1} << (To::kMantissa - 1)) - 1;
    nan |= (magnitude >> (From::kMantissa - To::kMantissa)) & payload;
  }
  const Bits code = magnitude > From::kInfinity ? nan : number;
  if constexpr (To::kNanIsMinusZero) {
    return static_cast<typename To::Bits>(code | select(code == 0, Bits{0}, sign));
  } else {
    return static_cast<typename To::Bits>(code | sign);
  }
}

template <class To>
requires(To::kMantissa <= Float64Upper::kMantissa - 2) [[gnu::always_inline]] inline typename To::Bits
    narrow_float64(std::uint64_t bits) noexcept {
  const auto rest = static_cast<std::uint32_t>(bits);
  return narrow<Float64Upper, To>(static_cast<std::uint32_t>(bits >> 32) | std::uint32_t{rest != 0});
}

template <class From, class To>
[[gnu::always_inline]] inline typename To::Bits convert(typename From::Bits bits) noexcept {
  if constexpr (sizeof(typename From::Bits) < sizeof(typename To::Bits)) {
    return widen<From, To>(bits);
  } else if constexpr (std::is_same_v<From, Float64> && !std::is_same_v<To, Float32>) {
    return narrow_float64<To>(bits);
  } else {
    return narrow<From, To>(bits);
  }
}

}  // namespace safetensors::format
