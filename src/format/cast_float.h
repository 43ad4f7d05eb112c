// How floats are laid out in bits, and one float from another: whole numbers and no branches, so that loops over it
// become vector code and no floating-point mode changes what comes out.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace safetensors::format {

// kOverflow: what a number too large becomes. kNan: a quiet NaN. kPayload: a NaN keeps its payload's highest bits.
// kNanIsMinusZero: the code of -0 is the only NaN, and there is no infinity.
struct Float64 {
  using Bits = std::uint64_t;
  using Number = double;
  static constexpr unsigned kMantissa = 52;
  static constexpr int kBias = 1023;
  static constexpr Bits kInfinity = 0x7FF0000000000000, kNan = 0x7FF8000000000000;
};
// The upper half of a Float64 whose last bit is set if the lower half is not zero: rounds to 18 bits of mantissa and
// fewer as the whole does, in half the space.
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
  static constexpr Bits kInfinity = 0x7F;  // none: from here on NaN, which is this code alone
  // The largest number, as in torch since 2.12; before, and in ml_dtypes, NaN.
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
// Powers of two from 2^-127, without sign; 0xFF is NaN.
struct Float8E8M0 {
  using Bits = std::uint8_t;
};

template <class Float>
inline constexpr unsigned kSignAt = 8 * sizeof(typename Float::Bits) - 1;

// yes or no, without a branch that would keep a loop from becoming vector code.
template <class Bits>
[[gnu::always_inline]] inline Bits select(bool condition, Bits yes, Bits no) noexcept {
  const Bits mask = Bits{0} - Bits{condition};
  return (yes & mask) | (no & ~mask);
}

// Of fewer bits, exactly.
template <class From, class To>
[[gnu::always_inline]] inline typename To::Bits widen(typename From::Bits code) noexcept {
  using Bits = typename To::Bits;
  constexpr unsigned shift = To::kMantissa - From::kMantissa;
  constexpr auto rebias = Bits{To::kBias - From::kBias} << To::kMantissa;
  // The unit of numbers below the smallest normal one: normal in To, so the product is exact in any mode.
  constexpr auto unit = Bits{To::kBias - From::kBias + 1 - int{From::kMantissa}} << To::kMantissa;
  const Bits sign = Bits{code} >> kSignAt<From> << kSignAt<To>;
  const Bits magnitude = Bits{code} & ((Bits{1} << kSignAt<From>)-1);
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

// The magnitude's bits rounded to To's, without regard to what is too large for it or NaN.
template <class From, class To>
[[gnu::always_inline]] inline typename From::Bits round_magnitude(typename From::Bits magnitude) noexcept {
  using Bits = typename From::Bits;
  using Signed = std::make_signed_t<Bits>;
  constexpr unsigned cut = From::kMantissa - To::kMantissa;
  if constexpr (From::kBias == To::kBias) {
    return (magnitude + ((Bits{1} << (cut - 1)) - 1) + (magnitude >> cut & 1)) >> cut;
  } else {
    // Numbers that are not normal in From are zero in To, so that their bit in front does not matter.
    constexpr Signed lowest = From::kBias - To::kBias + 1;  // exponent of To's smallest normal number
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

// Of more bits, rounded to nearest even.
template <class From, class To>
[[gnu::always_inline]] inline typename To::Bits narrow(typename From::Bits bits) noexcept {
  using Bits = typename From::Bits;
  const Bits magnitude = bits & ((Bits{1} << kSignAt<From>)-1);
  const Bits sign = bits >> kSignAt<From> << kSignAt<To>;
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
