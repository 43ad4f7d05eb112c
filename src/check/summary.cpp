// Merges statistics. Squares are merged with the formula of Chan, Golub and LeVeque (1979), which does not subtract
// large sums of squares from each other. Sums keep 106 bits, so the distance of two means is right also if the means
// are large.
#include "check/summary.h"

#include <algorithm>
#include <cmath>

namespace safetensors::check {
namespace {

double unscaled(double number, int scale) noexcept {
  static_assert(kScaleExponent == 600);
  return scale == 0 ? number : number * (scale > 0 ? 0x1p-600 : 0x1p600);
}

}  // namespace

void Summary::add(const Summary& other) noexcept {
  nan += other.nan;
  positive_infinity += other.positive_infinity;
  negative_infinity += other.negative_infinity;
  zeros += other.zeros;
  if (other.finite == 0) return;
  min = finite == 0 ? other.min : std::min(min, other.min);
  max = finite == 0 ? other.max : std::max(max, other.max);
  Summary added = other;
  const int common = finite == 0 ? added.scale : std::min(scale, added.scale);
  scale_to(common);
  added.scale_to(common);
  squares = squares + added.squares;
  if (finite != 0) {
    const auto here = static_cast<double>(finite);
    const auto there = static_cast<double>(added.finite);
    const Wide mean = sum / here;
    const Wide other_mean = added.sum / there;
    const double distance = (other_mean + Wide{-mean.high, -mean.low}).high;
    squares = squares + Wide{distance * distance * here * (there / (here + there)), 0};
  }
  sum = sum + added.sum;
  finite += added.finite;
}

void Summary::scale_to(int wanted) noexcept {
  for (; scale > wanted; scale -= kScaleExponent) {
    constexpr double factor = 0x1p-600;
    sum = {sum.high * factor, sum.low * factor};
    squares = {squares.high * factor * factor, squares.low * factor * factor};
  }
  scale = wanted;
}

double Summary::mean() const noexcept {
  return std::clamp(unscaled((sum / static_cast<double>(finite)).high, scale), min, max);
}

double Summary::standard_deviation() const noexcept {
  const double deviation = unscaled(square_root(squares.high / static_cast<double>(finite)), scale);
  // Rounding could make it larger than the largest double.
  return scale < 0 ? std::min(deviation, max / 2 - min / 2) : deviation;
}

void Summary::add_special(double number) noexcept {
  if (std::isnan(number)) {
    ++nan;
  } else {
    ++(number > 0 ? positive_infinity : negative_infinity);
  }
}

void ExponentCounts::move_to(std::vector<StatsBin>& bins) {
  std::vector<StatsBin> merged;
  auto old = bins.begin();
  for (int exponent = kMin; exponent <= kMax; ++exponent) {
    const std::size_t index = 2 * static_cast<std::size_t>(exponent - kMin);
    StatsBin bin{exponent, counts_[index + 1], counts_[index]};
    if (old != bins.end() && old->exponent == exponent) {
      bin.negative += old->negative;
      bin.positive += old->positive;
      ++old;
    }
    if (bin.negative != 0 || bin.positive != 0) merged.push_back(bin);
  }
  bins = std::move(merged);
  std::ranges::fill(counts_, 0);
}

}  // namespace safetensors::check
