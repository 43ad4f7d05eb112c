// The value of one small float, from its bits. Every code of at most 16 bits is a float exactly.
#include <safetensors/element.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace safetensors {
namespace format {
namespace {

// The codes of a small float that are not finite numbers.
enum class Special : std::uint8_t {
  none,          // every code is a finite number
  ieee,          // the highest exponent means infinity and NaN
  nan_all_ones,  // only the code with all bits set below the sign is NaN
  nan_is_minus_zero,
};

struct SmallFloat {
  unsigned exponent_bits;
  unsigned mantissa_bits;
  int bias;
  Special special;
};

std::optional<SmallFloat> small_float_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F16:
      return SmallFloat{5, 10, 15, Special::ieee};
    case Dtype::BF16:
      return SmallFloat{8, 7, 127, Special::ieee};
    case Dtype::F8_E5M2:
      return SmallFloat{5, 2, 15, Special::ieee};
    case Dtype::F8_E4M3:
      return SmallFloat{4, 3, 7, Special::nan_all_ones};
    case Dtype::F8_E4M3FNUZ:
      return SmallFloat{4, 3, 8, Special::nan_is_minus_zero};
    case Dtype::F8_E5M2FNUZ:
      return SmallFloat{5, 2, 16, Special::nan_is_minus_zero};
    case Dtype::F6_E2M3:
      return SmallFloat{2, 3, 1, Special::none};
    case Dtype::F6_E3M2:
      return SmallFloat{3, 2, 3, Special::none};
    case Dtype::F4:
      return SmallFloat{2, 1, 1, Special::none};
    default:
      return std::nullopt;
  }
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float decode(const SmallFloat& format, std::uint32_t code) noexcept {
  const unsigned sign_bit = format.exponent_bits + format.mantissa_bits;
  const std::uint32_t mantissa = code & ((1u << format.mantissa_bits) - 1);
  const std::uint32_t highest = (1u << format.exponent_bits) - 1;
  const std::uint32_t exponent = code >> format.mantissa_bits & highest;
  const std::uint32_t magnitude = code & ((1u << sign_bit) - 1);
  const float sign = (code >> sign_bit & 1) != 0 ? -1.0f : 1.0f;
  if (format.special == Special::ieee && exponent == highest)
    return mantissa != 0 ? kNan : sign * std::numeric_limits<float>::infinity();
  if (format.special == Special::nan_all_ones && magnitude == (1u << sign_bit) - 1) return kNan;
  if (format.special == Special::nan_is_minus_zero && code == 1u << sign_bit) return kNan;
  const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - format.bias;
  const std::uint32_t whole = exponent == 0 ? mantissa : mantissa | 1u << format.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(whole), scale - static_cast<int>(format.mantissa_bits));
}

}  // namespace
}  // namespace format

inline namespace v0 {

float to_float(Dtype dtype, std::uint16_t bits) noexcept {
  const unsigned width = safetensors::bits(dtype);
  if (width > 16) return format::kNan;
  const std::uint32_t code = bits & ((std::uint32_t{1} << width) - 1);
  if (dtype == Dtype::F8_E8M0) return code == 0xFF ? format::kNan : std::ldexp(1.0f, static_cast<int>(code) - 127);
  const std::optional<format::SmallFloat> small = format::small_float_of(dtype);
  return small ? format::decode(*small, code) : format::kNan;
}

}  // namespace v0
}  // namespace safetensors
