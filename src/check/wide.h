// Sums of doubles that keep about 106 bits.
#pragma once

#include <bit>
#include <cstdint>

namespace safetensors::check {

// The sum high + low, where `low` is at most half a unit in the last place of `high`. All values must stay far from the
// largest double and from the subnormal ones.
struct Wide {
  double high = 0;
  double low = 0;
};

// The exact sum. Knuth's algorithm, for any order of a and b.
[[gnu::always_inline]] inline Wide two_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double rest = sum - a;
  return {sum, (a - (sum - rest)) + (b - rest)};
}

// The exact product. Dekker's algorithm, which needs no FMA.
inline Wide two_product(double a, double b) noexcept {
  constexpr double split = 134217729;  // 2^27 + 1
  const double a_split = split * a;
  const double b_split = split * b;
  const double a_high = a_split - (a_split - a);
  const double b_high = b_split - (b_split - b);
  const double a_low = a - a_high;
  const double b_low = b - b_high;
  const double product = a * b;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

inline Wide operator+(const Wide& a, const Wide& b) noexcept {
  const Wide high = two_sum(a.high, b.high);
  const Wide low = two_sum(a.low, b.low);
  const Wide sum = two_sum(high.high, high.low + low.high);
  return two_sum(sum.high, sum.low + low.low);
}

inline Wide operator/(const Wide& a, double b) noexcept {
  const double quotient = a.high / b;
  const Wide product = two_product(quotient, b);
  return two_sum(quotient, (((a.high - product.high) - product.low) + a.low) / b);
}

// Like std::sqrt, which would need libm, but the last bit may differ. x: 0, or a normal positive number. The start has
// half the exponent of x and an error of at most 7 %. Four steps of Newton's method give all bits.
inline double square_root(double x) noexcept {
  if (x == 0) return 0;
  double root = std::bit_cast<double>((std::bit_cast<std::uint64_t>(x) >> 1) + (std::uint64_t{1023} << 51));
  for (int i = 0; i < 4; ++i) root = (root + x / root) / 2;
  return root;
}

}  // namespace safetensors::check
