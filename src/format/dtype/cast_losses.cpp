// Counts losses without the result of the cast: an element is lost if its magnitude is above or below a limit that
// depends only on the new dtype. Elements are widened to F32 or F64 first, which is exact. The bits of the magnitudes
// of one float have the order of the numbers, so all comparisons compare integers, and no floating-point mode changes
// them.
#include "format/dtype/cast_losses.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "format/dtype/cast.h"
#include "format/dtype/cast_elements.h"
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

// clang-format off
const Limits& limits_of(Dtype from, Dtype to) noexcept {
  switch (to) {
    case Dtype::F32: return from == Dtype::F64 ? kFloat32 : kNone;
    case Dtype::F16: return kFloat16;
    case Dtype::BF16: return kBFloat16;
    case Dtype::F8_E5M2: return kFloat8E5M2;
    case Dtype::F8_E4M3: return kFloat8E4M3;
    case Dtype::F8_E4M3FNUZ: return kFloat8E4M3Fnuz;
    case Dtype::F8_E5M2FNUZ: return kFloat8E5M2Fnuz;
    default: return kNone;  // F64 holds every float
  }
}
// clang-format on

// Counts in kBlock elements of Float: Float32 or Float64. Compilers turn this loop into vector code, because the number
// of turns is a constant, no turn branches, and the counters and magnitudes are integers of one size. Magnitudes have
// no sign bit, and processors compare signed integers.
template <class Float>
CastLosses count_block(const Limits& limits, const std::byte* in) noexcept {
  using Bits = typename Float::Bits;
  using Signed = std::make_signed_t<Bits>;
  const auto bits_of = [](const Magnitude& magnitude) {
    if constexpr (sizeof(Bits) == 8) return static_cast<Signed>(magnitude.float64);
    if constexpr (sizeof(Bits) == 4) return static_cast<Signed>(magnitude.float32);
  };
  constexpr auto kInfinity = static_cast<Signed>(Float::kInfinity);
  const Signed below_overflow = static_cast<Signed>(bits_of(limits.overflow) - (limits.tie_fits ? 0 : 1));
  const Signed underflow = bits_of(limits.underflow);
  const Signed largest = static_cast<Signed>(limits.infinity ? kInfinity - 1 : kInfinity);
  constexpr auto kMagnitude = static_cast<Bits>(~(Bits{1} << kSignBit<Float>));
  // Each loses at most kBlock elements.
  Bits nan = 0;
  Bits above = 0;  // includes NaN, and infinities
  Bits below = 0;
  Bits beyond = 0;
  Bits zero = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto magnitude = static_cast<Signed>(load_element<Bits>(in + i * sizeof(Bits)) & kMagnitude);
    nan += magnitude > kInfinity ? Bits{1} : Bits{0};
    above += magnitude > below_overflow ? Bits{1} : Bits{0};
    beyond += magnitude > largest ? Bits{1} : Bits{0};
    below += magnitude > underflow ? Bits{0} : Bits{1};
    zero += magnitude == 0 ? Bits{1} : Bits{0};
  }
  return {.overflow = above - beyond, .underflow = below - zero, .nan = nan};
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
    if (now < kBlock) {  // the last block: zeros lose nothing
      const std::size_t filled = now * bits(wide) / 8;
      std::memmove(block, wide_in, filled);
      std::memset(block + filled, 0, sizeof block - filled);
      wide_in = block;
    }
    losses += wide == Dtype::F64 ? count_block<Float64>(limits, wide_in) : count_block<Float32>(limits, wide_in);
    in += now * size;
    count -= now;
  }
  return losses;
}

}  // namespace safetensors::format
