// The loop of stats with AVX2 and the portable one give the same sums, bit by bit.
#include "values/stats.cpp"  // NOLINT(bugprone-suspicious-include): its loops are not in a header

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace safetensors::cli {
namespace {

std::array<std::uint64_t, 11> bits_of(const Summary& sum) {
  const auto bits = [](double number) { return std::bit_cast<std::uint64_t>(number); };
  return {sum.finite,         sum.nan,           sum.positive_infinity, sum.negative_infinity,
          sum.zeros,          bits(sum.min),     bits(sum.max),         bits(sum.exponent),
          bits(sum.sum.high), bits(sum.sum.low), bits(sum.squares)};
}

TEST(StatsLoops, GiveTheSameSums) {
  if (!kAvx2) GTEST_SKIP() << "the processor has no AVX2";
  std::mt19937_64 random(3);
  for (unsigned round = 0; round < 600; ++round) {
    std::vector<double> numbers(random() % kStatsBlock + 1);
    for (double& number : numbers) {
      const std::uint64_t code = random();
      number = round % 3 == 0   ? std::bit_cast<double>(code)  // of any size, also NaN
               : round % 3 == 1 ? static_cast<double>(code >> 11) * 0x1p-53 - 0.25
                                : std::ldexp(static_cast<double>(code % 5), static_cast<int>(code >> 58) - 1074);
    }
    std::vector<double> others = numbers;
    EXPECT_EQ(bits_of(summarize<Two>(numbers, nullptr)), bits_of(summarize_avx2(others, nullptr))) << round;
  }
}

}  // namespace
}  // namespace safetensors::cli
