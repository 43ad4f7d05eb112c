// Merges statistics. Means and squares are merged with the formula of Chan, Golub and LeVeque (1979), which does not
// subtract large sums of squares from each other.
#include "check/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace safetensors::check {

void Summary::add(const Summary& other) noexcept {
  nan += other.nan;
  positive_infinity += other.positive_infinity;
  negative_infinity += other.negative_infinity;
  zeros += other.zeros;
  if (other.finite == 0) return;
  min = finite == 0 ? other.min : std::min(min, other.min);
  max = finite == 0 ? other.max : std::max(max, other.max);
  const auto before = static_cast<double>(finite);
  const auto added = static_cast<double>(other.finite);
  const double share = added / (before + added);
  const double distance = other.mean - mean;
  squares += other.squares + distance * distance * before * share;
  if (std::isfinite(distance)) {
    mean += distance * share;
  } else {
    mean = mean * (1 - share) + other.mean * share;  // the distance is too large for a double
  }
  if (!std::isfinite(squares)) squares = std::numeric_limits<double>::infinity();
  finite += other.finite;
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
