// stats(): values of every dtype, against sums in long double, and the promises of stats.h.
#include <safetensors/stats.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check/elements.h"
#include "check/sum_kernels.h"
#include "format/dtype/cast_kernels.h"
#include "support/file_support.h"

namespace safetensors::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

File file_of(const std::string& dtype, const std::string& shape, const std::string& data) {
  const std::string header = R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
                             std::to_string(data.size()) + "]}}";
  const auto bytes = std::make_shared<const std::string>(file_bytes(header, data));
  return File::from_memory(std::as_bytes(std::span(*bytes)), bytes).value();
}

File file_of(Dtype dtype, const std::string& data) {
  const std::string count = std::to_string(data.size() * 8 / bits(dtype));
  return file_of(std::string(to_string(dtype)), "[" + count + "]", data);
}

TensorStats stats_of(const File& file, const StatsOptions& options = {.histogram = true}) {
  const Result<std::vector<TensorStats>> found = stats(file.tensors(), options);
  EXPECT_TRUE(succeeds(found));
  EXPECT_EQ(found->size(), 1U);
  return found->front();
}

template <class T>
std::string raw(const std::vector<T>& values) {  // of a little-endian machine
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The statistics by definition, of numbers as doubles.
struct Reference {
  std::uint64_t nan = 0, positive_infinity = 0, negative_infinity = 0, zeros = 0, finite = 0;
  double min = kInf, max = -kInf;
  long double mean = 0, variance = 0;
  std::map<int, std::pair<std::uint64_t, std::uint64_t>> bins;

  explicit Reference(const std::vector<double>& numbers) {
    for (const double x : numbers) {
      nan += std::isnan(x) ? 1 : 0;
      positive_infinity += x == kInf ? 1 : 0;
      negative_infinity += x == -kInf ? 1 : 0;
      if (!std::isfinite(x)) continue;
      ++finite;
      zeros += x == 0 ? 1 : 0;
      min = std::min(min, x + 0.0);
      max = std::max(max, x + 0.0);
      mean += x;
      if (x != 0) ++(x < 0 ? bins[std::ilogb(x)].first : bins[std::ilogb(x)].second);
    }
    if (finite == 0) return;
    mean /= static_cast<long double>(finite);
    for (const double x : numbers) {
      if (std::isfinite(x)) variance += (x - mean) * (x - mean);
    }
    variance /= static_cast<long double>(finite);
  }
};

void expect_equal(const TensorStats& found, const std::vector<double>& numbers) {
  const Reference wanted(numbers);
  EXPECT_EQ(found.count, numbers.size());
  EXPECT_EQ(found.finite(), wanted.finite);
  EXPECT_EQ(found.nan, wanted.nan);
  EXPECT_EQ(found.positive_infinity, wanted.positive_infinity);
  EXPECT_EQ(found.negative_infinity, wanted.negative_infinity);
  EXPECT_EQ(found.zeros, wanted.zeros);
  if (wanted.finite == 0) return;
  EXPECT_EQ(found.min, wanted.min);
  EXPECT_EQ(found.max, wanted.max);
  const auto near = [&](double value, long double exact, long double scale) {
    EXPECT_LE(std::abs(value - exact), 1e-14L * scale) << value << " and " << static_cast<double>(exact);
  };
  near(found.mean, wanted.mean, std::sqrt(wanted.variance) + std::abs(wanted.mean));
  near(found.variance(), wanted.variance, wanted.variance);
  std::map<int, std::pair<std::uint64_t, std::uint64_t>> bins;
  for (const StatsBin& bin : found.histogram) bins[bin.exponent] = {bin.negative, bin.positive};
  EXPECT_EQ(bins, wanted.bins);
}

std::vector<double> numbers_of(Dtype dtype, const std::string& data) {
  const std::size_t count = data.size() * 8 / bits(dtype) * check::components_of(dtype);
  std::vector<double> numbers(count);
  check::to_double(dtype, std::as_bytes(std::span(data)), numbers);
  return numbers;
}

// Random bytes. For F64, whose squares would be too large, the exponents are cut.
std::string random_data(Dtype dtype, std::size_t elements, std::mt19937_64& random) {
  std::string data(elements * bits(dtype) / 8, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  if (dtype == Dtype::F64) {
    for (std::size_t i = 7; i < data.size(); i += 8) {
      if ((data[i] & 0x70) != 0x40) data[i] = static_cast<char>((data[i] & 0x8F) | 0x30);
    }
  }
  return data;
}

TEST(Stats, EveryDtypeEqualsReference) {
  std::mt19937_64 random(1);
  for (const Dtype dtype : all_dtypes()) {
    SCOPED_TRACE(to_string(dtype));
    for (const std::size_t elements : {8U, 16U, 1016U, 1024U, 1032U, 2048U, 5000U}) {
      const std::string data = random_data(dtype, elements, random);
      expect_equal(stats_of(file_of(dtype, data)), numbers_of(dtype, data));
    }
  }
}

TEST(Stats, EveryCodeOfSixteenBits) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i * 40503);
  std::string data;
  for (const std::uint16_t code : codes) (data += static_cast<char>(code)) += static_cast<char>(code >> 8);
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16, Dtype::I16, Dtype::U16}) {
    SCOPED_TRACE(to_string(dtype));
    expect_equal(stats_of(file_of(dtype, data)), numbers_of(dtype, data));
  }
}

TEST(Stats, SpecialNumbersAreCountedAndLeftOut) {
  const TensorStats found =
      stats_of(file_of(Dtype::F32, raw<float>({NAN, 1, -0.0F, INFINITY, 3, -NAN, -INFINITY, 1e-45F, 0})));
  EXPECT_EQ(found.count, 9U);
  EXPECT_EQ(found.nan, 2U);
  EXPECT_EQ(found.positive_infinity, 1U);
  EXPECT_EQ(found.negative_infinity, 1U);
  EXPECT_EQ(found.zeros, 2U);
  EXPECT_EQ(found.finite(), 5U);
  EXPECT_EQ(found.min, 0);
  EXPECT_FALSE(std::signbit(found.min));
  EXPECT_EQ(found.max, 3);
  EXPECT_EQ(found.abs_max(), 3);
  EXPECT_DOUBLE_EQ(found.mean, 0.8);
  EXPECT_DOUBLE_EQ(found.variance(), 1.36);
  EXPECT_DOUBLE_EQ(found.standard_deviation, std::sqrt(1.36));
  ASSERT_EQ(found.histogram.size(), 3U);
  EXPECT_EQ(found.histogram[0].exponent, -149);
  EXPECT_EQ(found.histogram[2].exponent, 1);
}

TEST(Stats, WithoutFiniteNumbersEverythingIsZero) {
  for (const File& file :
       {file_of("F32", "[0]", ""), file_of("F4", "[3,0]", ""), file_of("F32", "[]", raw<float>({NAN}))}) {
    const TensorStats found = stats_of(file);
    EXPECT_EQ(found.finite(), 0U);
    EXPECT_EQ(found.min, 0);
    EXPECT_EQ(found.max, 0);
    EXPECT_EQ(found.mean, 0);
    EXPECT_EQ(found.standard_deviation, 0);
    EXPECT_TRUE(found.histogram.empty());
  }
}

TEST(Stats, BytesOfBoolAndPartsOfC64AreNumbers) {
  const TensorStats boolean = stats_of(file_of("BOOL", "[3]", std::string("\0\1\2", 3)));
  EXPECT_EQ(boolean.zeros, 1U);
  EXPECT_EQ(boolean.max, 2);
  EXPECT_EQ(boolean.mean, 1);
  const TensorStats complex = stats_of(file_of("C64", "[2]", raw<float>({1, -2, NAN, 4})));
  EXPECT_EQ(complex.count, 4U);
  EXPECT_EQ(complex.nan, 1U);
  EXPECT_EQ(complex.min, -2);
  EXPECT_EQ(complex.mean, 1);
}

TEST(Stats, LargeIntegersAreRounded) {
  const TensorStats found = stats_of(
      file_of(Dtype::I64, raw<std::int64_t>({std::numeric_limits<std::int64_t>::min(), (std::int64_t{1} << 53) + 1})));
  EXPECT_EQ(found.min, -0x1p63);
  EXPECT_EQ(found.max, 0x1p53);
  EXPECT_EQ(stats_of(file_of(Dtype::U64, std::string(8, '\xFF'))).max, 0x1p64);
}

TEST(Stats, VarianceKeepsDigitsBesideLargeMean) {
  std::vector<float> values(100001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 16777214.0F + static_cast<float>(i % 2);
  values.back() = 16777215.0F;
  const TensorStats found = stats_of(file_of(Dtype::F32, raw(values)));
  EXPECT_NEAR(found.variance(), 0.25, 1e-9);
  std::vector<double> steps(3000, 1e9);
  std::fill(steps.begin() + 1500, steps.end(), -1e9);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] += static_cast<double>(i % 3);
  expect_equal(stats_of(file_of(Dtype::F64, raw(steps))), steps);
  const TensorStats constant = stats_of(file_of(Dtype::F32, raw(std::vector<float>(5000, 0.1F))));
  EXPECT_EQ(constant.standard_deviation, 0);
  EXPECT_EQ(constant.mean, static_cast<double>(0.1F));
}

// As floats, the squares of these numbers would be zero or infinity.
TEST(Stats, SmallAndLargeNumbersOfBf16) {
  std::mt19937_64 random(4);
  for (const std::uint64_t exponent : {1U, 40U, 62U, 127U, 188U, 254U}) {
    std::string data(6000, '\0');
    for (std::size_t i = 0; i < data.size(); i += 2) {
      const std::uint64_t code = (random() & 0x807F) | exponent << 7;
      data[i] = static_cast<char>(code);
      data[i + 1] = static_cast<char>(code >> 8);
    }
    expect_equal(stats_of(file_of(Dtype::BF16, data)), numbers_of(Dtype::BF16, data));
  }
}

TEST(Stats, DeviationOfLargestF64) {
  constexpr double kMax = std::numeric_limits<double>::max();
  const TensorStats found = stats_of(file_of(Dtype::F64, raw<double>({kMax, kMax, -kMax, -kMax, 1e300})));
  EXPECT_EQ(found.variance(), kInf);
  EXPECT_NEAR(found.standard_deviation / kMax, std::sqrt(0.8), 1e-14);
  EXPECT_DOUBLE_EQ(found.mean, 2e299);
  EXPECT_EQ(found.abs_max(), kMax);
  std::vector<double> blocks(4096, kMax);
  std::fill(blocks.begin(), blocks.begin() + 2048, -kMax);
  const TensorStats halves = stats_of(file_of(Dtype::F64, raw(blocks)));
  EXPECT_EQ(halves.standard_deviation, kMax);
  EXPECT_EQ(halves.mean, 0);
}

TEST(Stats, DeviationOfSmallestF64) {
  constexpr double kMin = std::numeric_limits<double>::denorm_min();
  const TensorStats found = stats_of(file_of(Dtype::F64, raw<double>({-kMin, kMin, -kMin, kMin})));
  EXPECT_EQ(found.standard_deviation, kMin);
  EXPECT_EQ(found.mean, 0);
  const TensorStats tiny = stats_of(file_of(Dtype::F64, raw<double>({1e-300, 3e-300})));
  EXPECT_DOUBLE_EQ(tiny.standard_deviation, 1e-300);
  EXPECT_DOUBLE_EQ(tiny.mean, 2e-300);
}

// A block of large numbers, one of small numbers, and their mean.
TEST(Stats, BlocksOfDifferentMagnitudes) {
  for (const auto& [large, small] : {std::pair(1e305, 1e-305), std::pair(1e305, 1.0), std::pair(1.0, 1e-305),
                                     std::pair(1e-200, 0.0), std::pair(1e-160, 0.0)}) {
    std::vector<double> numbers(2048, large);
    std::fill(numbers.begin() + 1024, numbers.end(), small);
    for (int turn = 0; turn < 2; ++turn) {
      const TensorStats found = stats_of(file_of(Dtype::F64, raw(numbers)));
      EXPECT_DOUBLE_EQ(found.mean, large / 2);
      EXPECT_DOUBLE_EQ(found.standard_deviation, large / 2);
      std::ranges::reverse(numbers);
    }
  }
}

TEST(Stats, LargeNumbersMayCancel) {
  const TensorStats found = stats_of(file_of(Dtype::F64, raw<double>({1e16, 1, -1e16})));
  EXPECT_DOUBLE_EQ(found.mean, 1.0 / 3);
  std::vector<float> floats(100000, 1e-9F);
  for (std::size_t i = 0; i < floats.size(); i += 4) {
    floats[i] = 1e20F;
    floats[(i + 77 * 4 + 2) % floats.size()] = -1e20F;
  }
  EXPECT_DOUBLE_EQ(stats_of(file_of(Dtype::F32, raw(floats))).mean, static_cast<double>(1e-9F) / 2);
}

TEST(Stats, ThreadsDoNotChangeTheResult) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal(3, 2);
  std::vector<float> values((3 << 20) / 4 * 3 + 5);
  for (float& value : values) value = normal(random);
  values[700000] = NAN;
  const File file = file_of(Dtype::F32, raw(values));
  const TensorStats one = stats_of(file, {.histogram = true, .threads = 1});
  expect_equal(one, std::vector<double>(values.begin(), values.end()));
  for (unsigned threads = 2; threads < 9; ++threads) {
    const TensorStats found = stats_of(file, {.histogram = true, .threads = threads});
    EXPECT_EQ(found.mean, one.mean);
    EXPECT_EQ(found.standard_deviation, one.standard_deviation);
    EXPECT_EQ(found.zeros, one.zeros);
    ASSERT_EQ(found.histogram.size(), one.histogram.size());
    for (std::size_t i = 0; i < one.histogram.size(); ++i)
      EXPECT_EQ(found.histogram[i].positive, one.histogram[i].positive);
  }
}

TEST(Stats, ThreadsDoNotChangeHostileSums) {
  std::mt19937_64 random(5);
  for (const Dtype dtype : {Dtype::F64, Dtype::F32, Dtype::BF16, Dtype::F16}) {
    std::string data(std::size_t{4} << 20, '\0');
    for (char& byte : data) byte = static_cast<char>(random());
    const File file = file_of(dtype, data);
    const TensorStats one = stats_of(file, {.threads = 1});
    for (unsigned threads = 2; threads < 9; ++threads) {
      const TensorStats found = stats_of(file, {.threads = threads});
      EXPECT_EQ(std::bit_cast<std::uint64_t>(found.mean), std::bit_cast<std::uint64_t>(one.mean));
      EXPECT_EQ(found.standard_deviation, one.standard_deviation);
    }
  }
}

TEST(Stats, SelectsTensorsInTheirOrder) {
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)"
      R"("c":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})";
  const std::string bytes = file_bytes(header, "\1\2\4");
  const File file = File::from_memory(std::as_bytes(std::span(bytes)), nullptr).value();
  const auto all = stats(file.tensors()).value();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[2].mean, 3);
  EXPECT_TRUE(all[2].histogram.empty());
  const auto some =
      stats(file.tensors(), {.select = [](const Tensor& tensor) { return tensor.name() == "c"; }}).value();
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].tensor.name(), "c");
  EXPECT_TRUE(stats(Tensors()).value().empty());
}

TEST(Stats, ReportsProgressAndStops) {
  const File file = file_of(Dtype::U8, std::string(std::size_t{20} << 20, 'x'));
  std::uint64_t last = 0;
  const auto done = stats(file.tensors(), {.progress = [&](std::uint64_t completed, std::uint64_t total) {
                            EXPECT_GE(completed, last);
                            EXPECT_EQ(total, std::uint64_t{20} << 20);
                            last = completed;
                            return true;
                          }});
  EXPECT_EQ(done.value()[0].mean, 'x');
  EXPECT_EQ(last, std::uint64_t{20} << 20);
  const auto cancelled = stats(file.tensors(), {.progress = [](std::uint64_t, std::uint64_t) { return false; }});
  EXPECT_EQ(cancelled.error().code, Errc::cancelled);
}

void expect_same(const check::BlockSums& one, const check::BlockSums& other) {
  EXPECT_EQ(std::bit_cast<std::uint64_t>(one.sum.high), std::bit_cast<std::uint64_t>(other.sum.high));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(one.sum.low), std::bit_cast<std::uint64_t>(other.sum.low));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(one.squares), std::bit_cast<std::uint64_t>(other.squares));
}

template <class Float>
void expect_same_loops(std::mt19937_64& random) {
  std::vector<typename Float::Bits> block(check::kBlock);
  const check::SumKernel portable = check::sum_kernel<Float>(false);
  const check::SumKernel avx2 = check::sum_kernel<Float>(true);
  for (int round = 0; round < 100; ++round) {
    for (auto& code : block) {
      code = static_cast<typename Float::Bits>(random());
      const auto highest = static_cast<typename Float::Bits>(Float::kInfinity);
      if ((code & highest) == highest) code = static_cast<typename Float::Bits>(code & ~highest);
    }
    const auto* const bytes = reinterpret_cast<const std::byte*>(block.data());
    const check::CodeRange one = portable.range(bytes);
    const check::CodeRange other = avx2.range(bytes);
    EXPECT_EQ(one.min, other.min);
    EXPECT_EQ(one.max, other.max);
    EXPECT_EQ(one.zeros, other.zeros);
    EXPECT_EQ(one.smallest, other.smallest);
    const std::size_t count = random() % check::kBlock + 1;
    expect_same(portable.exact_sums(bytes, count, 0.5, 1), avx2.exact_sums(bytes, count, 0.5, 1));
    const double scale = sizeof(typename Float::Bits) == 8 ? 0x1p-600 : 1;
    expect_same(portable.wide_sums(bytes, count, 0.5, scale), avx2.wide_sums(bytes, count, 0.5, scale));
  }
}

TEST(Stats, LoopsOfAllInstructionsAgree) {
  if (!format::available(format::Instructions::avx2)) GTEST_SKIP() << "the processor has no AVX2 and F16C";
  std::mt19937_64 random(3);
  expect_same_loops<format::Float64>(random);
  expect_same_loops<format::Float32>(random);
  expect_same_loops<format::Float16>(random);
  expect_same_loops<format::BFloat16>(random);
}

}  // namespace
}  // namespace safetensors::test
