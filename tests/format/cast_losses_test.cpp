// Counts of losses, against a slow reference: every code of 8 and 16 bits, and the neighbours of every limit for F32
// and F64.
#include "format/dtype/cast_losses.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "format/dtype/cast.h"
#include "support/float_reference.h"

namespace safetensors::test {
namespace {

using format::CastLosses;

constexpr Dtype kTargets[] = {Dtype::F64,     Dtype::F32,     Dtype::F16,         Dtype::BF16,
                              Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::F8_E4M3FNUZ, Dtype::F8_E5M2FNUZ};

CastLosses expected(double value, Dtype to) {
  if (std::isnan(value)) return {.nan = 1};
  const FloatLayout layout = layout_of(to);
  const bool has_infinity = layout.too_large == layout.last + 1 && !layout.fnuz;
  if (std::isinf(value)) return {.overflow = has_infinity ? 0U : 1U};
  if (to == Dtype::F64) return {};
  const double size = std::fabs(value);
  const double halfway = magnitude_of(layout, layout.last) / 2 + magnitude_of(layout, layout.last + 1) / 2;
  CastLosses losses;
  if (size > halfway || (size == halfway && layout.last % 2 != 0)) losses.overflow = 1;
  const std::uint64_t magnitude = encode(to, size) & ((std::uint64_t{1} << layout.sign_at()) - 1);
  if (size != 0 && magnitude == 0 && losses.overflow == 0) losses.underflow = 1;
  return losses;
}

void expect_losses(Dtype from, const std::vector<std::uint64_t>& codes, Dtype to) {
  const std::size_t size = bits(from) / 8;
  std::vector<std::byte> packed;
  CastLosses all;
  for (const std::uint64_t code : codes) {
    for (std::size_t i = 0; i < size; ++i) packed.push_back(static_cast<std::byte>(code >> (8 * i)));
    const CastLosses one = format::count_cast_losses(from, packed.data() + packed.size() - size, to, 1);
    const CastLosses wanted = from == to ? CastLosses{} : expected(decode(from, code), to);
    ASSERT_TRUE(one.overflow == wanted.overflow && one.underflow == wanted.underflow && one.nan == wanted.nan)
        << to_string(from) << " to " << to_string(to) << ", code " << code << ": overflow " << one.overflow
        << ", underflow " << one.underflow << ", nan " << one.nan;
    all += wanted;
  }
  const CastLosses sum = format::count_cast_losses(from, packed.data(), to, codes.size());
  EXPECT_EQ(sum.overflow, all.overflow);
  EXPECT_EQ(sum.underflow, all.underflow);
  EXPECT_EQ(sum.nan, all.nan);
}

TEST(CastLosses, CountsEverySmallFloat) {
  for (const Dtype from : {Dtype::F16, Dtype::BF16, Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::F8_E4M3FNUZ,
                           Dtype::F8_E5M2FNUZ, Dtype::F8_E8M0}) {
    std::vector<std::uint64_t> codes(std::size_t{1} << bits(from));
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = i;
    for (const Dtype to : kTargets) expect_losses(from, codes, to);
  }
}

template <class Number, class Bits>
std::vector<std::uint64_t> neighbours(Dtype to) {
  const FloatLayout layout = layout_of(to);
  const double limits[] = {magnitude_of(layout, layout.last),
                           magnitude_of(layout, layout.last) / 2 + magnitude_of(layout, layout.last + 1) / 2,
                           magnitude_of(layout, 1),
                           magnitude_of(layout, 1) / 2,
                           0,
                           1,
                           std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()};
  std::vector<std::uint64_t> codes;
  for (const double limit : limits) {
    const auto number = static_cast<Number>(limit);
    for (const Number each : {number, std::nextafter(number, Number{0}),
                              std::nextafter(number, std::numeric_limits<Number>::infinity()), -number})
      codes.push_back(std::bit_cast<Bits>(each));
  }
  codes.push_back(std::bit_cast<Bits>(std::numeric_limits<Number>::denorm_min()));
  codes.push_back(std::bit_cast<Bits>(std::numeric_limits<Number>::max()));
  return codes;
}

TEST(CastLosses, CountsNeighboursOfLimits) {
  for (const Dtype to : kTargets) {
    expect_losses(Dtype::F64, neighbours<double, std::uint64_t>(to), to);
    if (to != Dtype::F64) expect_losses(Dtype::F32, neighbours<float, std::uint32_t>(to), to);
  }
}

TEST(CastLosses, CountsAcrossBlocks) {
  std::vector<float> values(5000, 1.0F);
  values[0] = values[511] = values[512] = values[4999] = 1e6F;
  const CastLosses losses = format::count_cast_losses(Dtype::F32, reinterpret_cast<const std::byte*>(values.data()),
                                                      Dtype::F16, values.size());
  EXPECT_EQ(losses.overflow, std::endian::native == std::endian::little ? 4U : losses.overflow);
}

}  // namespace
}  // namespace safetensors::test
