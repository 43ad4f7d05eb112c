// Computes statistics in double, in two passes: the first finds the range and the sum of the numbers, the second adds
// up their squared distances from the mean. The passes are over blocks of numbers, so each tensor is read once. Blocks
// become chunks, and chunks become tensors, in the same two passes: see combined(). Sums keep their rounding errors in
// a second double. Elements of at most 8 bits are counted by their codes instead, and each code is a block.
#include "values/stats.h"

#include "values/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>

namespace safetensors::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kStatsBlock = 2048;  // numbers, which stay in the L1 cache

// The exact sum, by Knuth's algorithm. T: double, or several.
template <class T>
[[gnu::always_inline]] inline void two_sum(const T& a, const T& b, T& sum, T& error) noexcept {
  const T total = a + b;
  const T rest = total - a;
  error = (a - (total - rest)) + (b - rest);
  sum = total;
}

Wide wide_sum(double a, double b) noexcept {
  Wide sum;
  two_sum(a, b, sum.high, sum.low);
  return sum;
}

Wide operator+(const Wide& a, const Wide& b) noexcept {
  const Wide high = wide_sum(a.high, b.high);
  const Wide low = wide_sum(a.low, b.low);
  const Wide sum = wide_sum(high.high, high.low + low.high);
  return wide_sum(sum.high, sum.low + low.low);
}

Wide operator/(const Wide& a, double b) noexcept {
  const double quotient = a.high / b;
  return wide_sum(quotient, (std::fma(-quotient, b, a.high) + a.low) / b);
}

Wide scaled(const Wide& number, int exponent) noexcept {
  return {std::ldexp(number.high, exponent), std::ldexp(number.low, exponent)};
}

// Sums up parts.
Summary combined(std::span<const Summary> parts) noexcept {
  Summary all;
  for (const Summary& part : parts) {
    all.finite += part.finite;
    all.nan += part.nan;
    all.positive_infinity += part.positive_infinity;
    all.negative_infinity += part.negative_infinity;
    all.zeros += part.zeros;
    all.min = std::min(all.min, part.min);
    all.max = std::max(all.max, part.max);
    all.exponent = std::max(all.exponent, part.exponent);
  }
  for (const Summary& part : parts) all.sum = all.sum + scaled(part.sum, part.exponent - all.exponent);
  const Wide mean = all.sum / static_cast<double>(std::max<std::uint64_t>(all.finite, 1));
  Wide squares;
  for (const Summary& part : parts) {
    if (part.finite == 0) continue;
    const auto count = static_cast<double>(part.finite);
    const int shift = part.exponent - all.exponent;
    const double apart = (scaled(part.sum / count, shift) + Wide{-mean.high, -mean.low}).high;
    squares = squares + Wide{std::ldexp(part.squares, 2 * shift) + count * apart * apart, 0};
  }
  all.squares = squares.high;
  return all;
}

// The loops over a block. Vector: several doubles, for which compilers make one instruction of each operation. The last
// numbers go one by one through the same loop, with Vector = double. merge() adds one of the doubles of a vector.

using Two = double __attribute__((vector_size(16)));
using Four = double __attribute__((vector_size(32)));

template <class Vector>
struct First {
  [[gnu::always_inline]] void add(const Vector& x, const Vector& /*mean*/) noexcept {
    min = x < min ? x : min;
    max = x > max ? x : max;
    zeros += x == 0.0 ? Vector{} + 1.0 : Vector{};
    Vector error;
    two_sum(sum, x, sum, error);
    errors += error;
  }
  template <class Other>
  [[gnu::always_inline]] void merge(const Other& other, std::size_t i) noexcept {
    min = std::min(min, other.min[i]);
    max = std::max(max, other.max[i]);
    zeros += other.zeros[i];
    double error = 0;
    two_sum(sum, other.sum[i], sum, error);
    errors += error + other.errors[i];
  }

  Vector min = Vector{} + kInfinity;
  Vector max = Vector{} - kInfinity;
  Vector zeros = {};
  Vector sum = {};
  Vector errors = {};  // of the additions to the sum
};

template <class Vector>
struct Second {
  [[gnu::always_inline]] void add(const Vector& x, const Vector& mean) noexcept {
    const Vector distance = x - mean;
    sum += distance * distance;
  }
  template <class Other>
  [[gnu::always_inline]] void merge(const Other& other, std::size_t i) noexcept {
    sum += other.sum[i];
  }

  Vector sum = {};
};

// Runs a loop. Eight independent sums, so that additions need not wait for each other, and so that the result is the
// same for vectors of each size.
template <template <class> class Loop, class Vector>
[[gnu::always_inline]] inline Loop<double> over(std::span<const double> numbers, double mean = 0) noexcept {
  constexpr std::size_t kSums = 8;
  constexpr std::size_t kWidth = sizeof(Vector) / sizeof(double);
  const Vector means = Vector{} + mean;
  Loop<Vector> loops[kSums / kWidth];
  std::size_t i = 0;
  for (; numbers.size() - i >= kSums; i += kSums) {
    for (std::size_t k = 0; k < kSums / kWidth; ++k) {
      Vector x;
      std::memcpy(&x, &numbers[i + k * kWidth], sizeof x);
      loops[k].add(x, means);
    }
  }
  Loop<double> all;
  for (; i < numbers.size(); ++i) all.add(numbers[i], mean);
  for (const Loop<Vector>& loop : loops) {
    for (std::size_t lane = 0; lane < kWidth; ++lane) all.merge(loop, lane);
  }
  return all;
}

// Counts and removes numbers that are not finite.
std::span<double> without_specials(std::span<double> numbers, Summary& found) noexcept {
  std::size_t kept = 0;
  for (const double number : numbers) {
    if (std::isfinite(number)) {
      numbers[kept++] = number;
    } else {
      ++(std::isnan(number) ? found.nan : number > 0 ? found.positive_infinity : found.negative_infinity);
    }
  }
  return numbers.first(kept);
}

// The numbers of a chunk by sign and by power of two, in steps of it from the smallest subnormal number on.
class Exponents {
 public:
  void add(std::span<const double> numbers, std::uint64_t each = 1) noexcept {
    for (const double number : numbers) {
      const bool small = std::abs(number) < std::numeric_limits<double>::min();
      const auto bits = std::bit_cast<std::uint64_t>(small ? number * 0x1p64 : number);
      counts_[static_cast<std::size_t>((bits >> 63) * kFields + (bits >> 52 & 2047) + (small ? 0 : 64))] += each;
    }
  }
  void add_to(std::map<int, StatsBin>& bins) const {
    for (std::size_t field = 1; field < kFields; ++field) {  // 0: zeros
      if (counts_[field] + counts_[field + kFields] == 0) continue;
      StatsBin& bin = bins[static_cast<int>(field) - 64 - 1023];
      bin.positive += counts_[field];
      bin.negative += counts_[field + kFields];
    }
  }

 private:
  static constexpr std::size_t kFields = 2048 + 64;
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(2 * kFields);
};

// Sums up a block, whose numbers it may change. exponents: may be null.
template <class Vector>
[[gnu::always_inline]] inline Summary summarize(std::span<double> numbers, Exponents* exponents) noexcept {
  Summary found;
  First<double> first = over<First, Vector>(numbers);
  if (!std::isfinite(first.sum)) {  // a NaN, an infinity, or large numbers
    numbers = without_specials(numbers, found);
    first = over<First, Vector>(numbers);
  }
  if (exponents != nullptr) exponents->add(numbers);
  found.finite = numbers.size();
  found.zeros = static_cast<std::uint64_t>(first.zeros);
  found.min = first.min + 0.0;  // not -0.0
  found.max = first.max + 0.0;
  if (found.zeros == found.finite) return found;
  found.exponent = std::ilogb(found.abs_max());
  if (std::abs(found.exponent) < 300) {
    found.exponent = 0;
  } else {
    for (double& number : numbers) number = std::ldexp(number, -found.exponent);
    first = over<First, Vector>(numbers);
  }
  found.sum = wide_sum(first.sum, first.errors);
  const auto count = static_cast<double>(found.finite);
  const Wide mean = found.sum / count;
  // The mean is not mean.high alone.
  found.squares = std::max(0.0, over<Second, Vector>(numbers, mean.high).sum - count * mean.low * mean.low);
  return found;
}

// Windows aligns no stack to 32 bytes for GCC (GCC bug 54412).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32)
// The same results, computed faster.
[[gnu::target("avx2")]] Summary summarize_avx2(std::span<double> numbers, Exponents* exponents) noexcept {
  return summarize<Four>(numbers, exponents);
}
const bool kAvx2 = __builtin_cpu_supports("avx2") != 0;
#else
constexpr auto summarize_avx2 = summarize<Two>;
constexpr bool kAvx2 = false;
#endif

// Adds the sums of elements of at most 8 bits: one sum per code. exponents: may be null.
void add_codes(std::vector<Summary>& sums, Dtype dtype, std::span<const std::byte> bytes, Exponents* exponents) {
  const unsigned width = bits(dtype);
  std::uint64_t counts[4][256] = {};  // of neighbours, so that equal ones need not wait for each other
  for (std::size_t i = 0; width == 6 && i < bytes.size(); i += 3) {
    const std::uint64_t group = bits_at(bytes.subspan(i), 0, 24);
    for (std::size_t k = 0; k < 4; ++k) ++counts[k][group >> 6 * k & 63];
  }
  for (std::size_t i = 0; width != 6 && i < bytes.size(); ++i) ++counts[i % 4][std::to_integer<std::size_t>(bytes[i])];
  for (unsigned code = 0; code < 256; ++code) {
    const std::uint64_t count = counts[0][code] + counts[1][code] + counts[2][code] + counts[3][code];
    for (unsigned at = 0; count > 0 && at + width <= 8; at += width) {  // a byte is two codes of 4 bits
      double value = values_of(dtype)[code >> at & ((1U << width) - 1)];
      Summary sum = summarize<Two>({&value, 1}, nullptr);
      if (exponents != nullptr && sum.finite > 0) exponents->add({&value, 1}, count);
      for (std::uint64_t* number : {&sum.finite, &sum.nan, &sum.positive_infinity, &sum.negative_infinity, &sum.zeros})
        *number *= count;
      sum.sum.high *= static_cast<double>(count);  // exact: 8 bits by at most 20, and no other part has a value
      sums.push_back(sum);
    }
  }
}

// Reads a chunk and sums it up. exponents: may be null.
Result<Summary> summary_of(const Tensor& tensor, const Chunk& chunk, Exponents* exponents) {
  static thread_local std::vector<std::byte> bytes;  // each thread keeps its memory for the next chunk
  static thread_local std::vector<double> numbers;
  static thread_local std::vector<Summary> blocks;
  if (Status status = read_chunk(tensor, chunk, bytes); !status) return std::move(status).error();
  const std::size_t components = components_of(tensor.dtype());
  blocks.clear();
  const bool by_codes = bits(tensor.dtype()) <= 8;
  if (by_codes) add_codes(blocks, tensor.dtype(), bytes, exponents);
  for (std::size_t at = 0; !by_codes && at < chunk.count; at += kStatsBlock / components) {
    numbers.resize(std::min(kStatsBlock, (chunk.count - at) * components));
    to_double(tensor.dtype(), std::span(bytes).subspan(at * bits(tensor.dtype()) / 8), numbers);
    blocks.push_back(kAvx2 ? summarize_avx2(numbers, exponents) : summarize<Two>(numbers, exponents));
  }
  return combined(blocks);
}

}  // namespace

double Summary::mean() const noexcept {
  if (finite == 0) return 0;
  return std::clamp(std::ldexp((sum / static_cast<double>(finite)).high, exponent), min, max);
}

double Summary::deviation() const noexcept {
  if (finite == 0) return 0;
  const double found = std::ldexp(std::sqrt(squares / static_cast<double>(finite)), exponent);
  return std::isfinite(found) ? found : max / 2 - min / 2;  // rounding made it larger than the largest double
}

Result<std::vector<TensorStats>> stats(Tensors tensors, bool histogram, Console& console,
                                       const std::function<bool(const TensorInfo&)>& select) {
  std::vector<TensorStats> found;
  std::vector<Chunk> chunks;
  for (const Tensor& tensor : tensors) {
    if (!select(tensor.info())) continue;
    add_chunks(chunks, found.size(), tensor.numel(), bits(tensor.dtype()));
    found.emplace_back(tensor);
  }
  std::vector<Summary> summaries(chunks.size());
  std::mutex mutex;  // guards the histograms
  const auto work = [&](std::size_t index) -> Status {
    std::optional<Exponents> exponents;
    if (histogram) exponents.emplace();
    TensorStats& tensor = found[chunks[index].item];
    const Result<Summary> summary = summary_of(tensor.tensor, chunks[index], exponents ? &*exponents : nullptr);
    if (!summary) return summary.error();
    summaries[index] = *summary;
    if (!exponents) return {};
    const std::lock_guard lock(mutex);
    exponents->add_to(tensor.histogram);
    return {};
  };
  if (Status status = for_each_chunk(chunks, console, work); !status) return std::move(status).error();
  for (std::size_t begin = 0, end = 0; begin < chunks.size(); begin = end) {
    while (end < chunks.size() && chunks[end].item == chunks[begin].item) ++end;
    static_cast<Summary&>(found[chunks[begin].item]) = combined(std::span(summaries).subspan(begin, end - begin));
  }
  return found;
}

}  // namespace safetensors::cli
