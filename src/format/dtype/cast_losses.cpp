// Counts losses without the result of the cast: an element is lost if its magnitude is above or below a limit that
// depends only on the new dtype. Elements are widened to F32 or F64 first, which is exact. The bits of the magnitudes
// of one float have the order of the numbers, so all comparisons compare integers, and no floating-point mode changes
// them.
#include "format/dtype/cast_losses.h"

#include <algorithm>
#include <bit>

#include "format/dtype/cast.h"
#include "format/dtype/cast_float.h"
#include "format/dtype/cast_integers.h"

namespace safetensors::format {
namespace {

constexpr std::size_t kBlock = 512;  // elements that are widened at the same time

// The bits of a number as F64 and as F32.
struct Magnitude {
  std::uint64_t float64;
  std::uint32_t float32;
};
constexpr Magnitude both(double value) {
  return {std::bit_cast<std::uint64_t>(value), std::bit_cast<std::uint32_t>(static_cast<float>(value))};
}
constexpr Magnitude only_float64(double value) {
  return {std::bit_cast<std::uint64_t>(value), 0};
}

struct Limits {
  Magnitude overflow;  // the lowest magnitude that overflows; with tie_fits, the next one does
  bool tie_fits;
  Magnitude underflow;  // the largest magnitude that becomes zero
  bool infinity;        // the dtype has an infinity
};

// Largest number plus half a unit in the last place, and half of the smallest number. A tie rounds to even: to zero
// below, and above to the number whose last bit is 0. Only the largest number of F8_E4M3, 448, has such a last bit.
// Constants, so that no floating-point mode changes them.
constexpr Limits kFloat32 = {only_float64(0x1.ffffffp127), false, only_float64(0x1p-150), true};
constexpr Limits kFloat16 = {both(65520), false, both(0x1p-25), true};
constexpr Limits kBFloat16 = {both(0x1.ffp127), false, both(0x1p-134), true};
constexpr Limits kFloat8E5M2 = {both(61440), false, both(0x1p-17), true};
constexpr Limits kFloat8E4M3 = {both(464), true, both(0x1p-10), false};
constexpr Limits kFloat8E4M3Fnuz = {both(248), false, both(0x1p-11), false};
constexpr Limits kFloat8E5M2Fnuz = {both(61440), false, both(0x1p-18), false};
constexpr Limits kNone = {{Float64::kInfinity, Float32::kInfinity}, false, {0, 0}, true};

const Limits& limits_of(Dtype from, Dtype to) noexcept {
  switch (to) {
    case Dtype::F32:
      return from == Dtype::F64 ? kFloat32 : kNone;
    case Dtype::F16:
      return kFloat16;
    case Dtype::BF16:
      return kBFloat16;
    case Dtype::F8_E5M2:
      return kFloat8E5M2;
    case Dtype::F8_E4M3:
      return kFloat8E4M3;
    case Dtype::F8_E4M3FNUZ:
      return kFloat8E4M3Fnuz;
    case Dtype::F8_E5M2FNUZ:
      return kFloat8E5M2Fnuz;
    default:
      return kNone;  // F64 holds every float
  }
}

template <class Bits>
Bits load_element(const std::byte* in) noexcept {
  Bits bits = 0;
  for (std::size_t i = 0; i < sizeof bits; ++i)
    bits |= static_cast<Bits>(Bits{static_cast<std::uint8_t>(in[i])} << (8 * i));
  return bits;
}

// Float: Float32 or Float64. Elements are little-endian.
template <class Float>
CastLosses count_block(const Limits& limits, const std::byte* in, std::size_t count) noexcept {
  using Bits = typename Float::Bits;
  const auto bits_of = [](const Magnitude& magnitude) -> Bits {
    if constexpr (sizeof(Bits) == 8) return magnitude.float64;
    return magnitude.float32;
  };
  const Bits overflow = static_cast<Bits>(bits_of(limits.overflow) + (limits.tie_fits ? 1 : 0));
  const Bits underflow = bits_of(limits.underflow);
  const Bits largest = static_cast<Bits>(limits.infinity ? Float::kInfinity - 1 : Float::kInfinity);
  CastLosses losses;
  for (std::size_t i = 0; i < count; ++i) {
    const Bits bits = load_element<Bits>(in + i * sizeof(Bits));
    const Bits magnitude = bits & static_cast<Bits>(~(Bits{1} << kSignBit<Float>));
    losses.nan += magnitude > Float::kInfinity ? 1U : 0U;
    losses.overflow += magnitude >= overflow && magnitude <= largest ? 1U : 0U;
    losses.underflow += magnitude != 0 && magnitude <= underflow ? 1U : 0U;
  }
  return losses;
}

}  // namespace

CastLosses count_cast_losses(Dtype from, const std::byte* in, Dtype to, std::size_t count) noexcept {
  if (from == to || is_integer_dtype(from)) return {};  // an integer fits, or its cast fails
  // Every number of the other dtypes is exact in F32, which is faster than F64.
  const Dtype wide = from == Dtype::F64 ? Dtype::F64 : Dtype::F32;
  const Limits& limits = limits_of(from, to);
  CastLosses losses;
  alignas(8) std::byte block[kBlock * sizeof(double)];
  const std::size_t size = bits(from) / 8;
  while (count > 0) {
    const std::size_t now = std::min(count, kBlock);
    const std::byte* wide_in = in;
    if (from != wide) {
      cast(from, in, wide, block, now);
      wide_in = block;
    }
    losses +=
        wide == Dtype::F64 ? count_block<Float64>(limits, wide_in, now) : count_block<Float32>(limits, wide_in, now);
    in += now * size;
    count -= now;
  }
  return losses;
}

}  // namespace safetensors::format
