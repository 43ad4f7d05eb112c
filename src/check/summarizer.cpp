// Computes the statistics of elements. There are three ways:
// - F32, F64, F16 and BF16: blocks of kBlock codes go through the loops of sum_kernels.h. A block with NaN or infinity
//   is copied without these first. A short block is filled up with its first number, which does not change the range.
// - Dtypes of up to 8 bits: the elements of each code are counted, and the statistics are those of the counts.
// - Other integers are converted to double first.
//
// The sum of squares of a block is (sum of d^2) - n (m - center)^2, for the distances d of its n numbers from a center,
// and their mean m. The center is the mean of the block before. If this takes away more than a quarter of the sum of
// d^2, then the sums are computed again with m as the center. Thus rounding costs little, however large the mean is.
#include <safetensors/element.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/little_endian.h"
#include "check/elements.h"
#include "check/sum_kernels.h"
#include "check/summary.h"
#include "format/dtype/cast.h"
#include "format/dtype/cast_kernels.h"

namespace safetensors::check {
namespace {

template <class Float>
double to_number(typename Float::Bits code) noexcept {
  if constexpr (std::is_same_v<Float, format::Float64>) {
    return std::bit_cast<double>(code);
  } else if constexpr (std::is_same_v<Float, format::Float32>) {
    return static_cast<double>(std::bit_cast<float>(code));
  } else {
    return static_cast<double>(std::bit_cast<float>(format::widen<Float, format::Float32>(code)));
  }
}

template <class Unsigned>
Unsigned load(const std::byte* bytes) noexcept {
  Unsigned value = 0;
  std::memcpy(&value, bytes, sizeof value);
  if constexpr (std::endian::native != std::endian::little && sizeof value > 1) {
    std::uint64_t swapped = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) swapped = swapped << 8 | (std::uint64_t{value} >> (8 * i) & 0xFF);
    value = static_cast<Unsigned>(swapped);
  }
  return value;
}

template <class Float>
double number_of_ordered(std::int64_t ordered) noexcept {
  using Bits = typename Float::Bits;
  constexpr auto magnitude = static_cast<Bits>((Bits{1} << format::kSignBit<Float>)-1);
  const auto code = static_cast<Bits>(ordered);
  return to_number<Float>(ordered < 0 ? static_cast<Bits>(code ^ magnitude) : code) + 0.0;  // + 0.0: no -0.0
}

// Adds floats to a summary. Counts exponents unless `exponents` is null.
template <class Float>
class Floats {
  using Bits = typename Float::Bits;

 public:
  Floats(Summary& summary, ExponentCounts* exponents) noexcept
      : kernel_(sum_kernel<Float>(format::available(format::Instructions::avx2))),
        summary_(summary),
        exponents_(exponents) {}

  // bytes: little-endian.
  void add(const std::byte* bytes, std::size_t count) {
    for (std::size_t at = 0; at < count; at += kBlock) {
      const std::byte* const block = bytes + at * sizeof(Bits);
      const std::size_t size = std::min(kBlock, count - at);
      if (size == kBlock && std::endian::native == std::endian::little) {
        add_block(block, size);
      } else {
        for (std::size_t i = 0; i < size; ++i) buffer_[i] = load<Bits>(block + i * sizeof(Bits));
        add_buffer(size);
      }
    }
    if (exponents_ != nullptr) flush();
  }

  // Adds the first `count` codes of buffer().
  void add_buffer(std::size_t count) {
    std::fill(buffer_ + count, buffer_ + kBlock, buffer_[0]);
    add_block(reinterpret_cast<const std::byte*>(buffer_), count);
  }
  // Room for kBlock codes.
  Bits* buffer() noexcept { return buffer_; }

  // Moves the counts of exponents to the counts of the tensor.
  void flush() {
    if (exponents_ == nullptr) return;
    for (std::size_t field = 1; field < kFields - 1; ++field) {
      for (const std::size_t sign : {std::size_t{0}, kFields}) {
        std::uint64_t count = 0;
        for (const auto& table : fields_) count += table[sign + field];
        if (count != 0) exponents_->add(static_cast<int>(field) - kFieldBias, sign != 0, count);
      }
    }
    std::memset(fields_, 0, sizeof fields_);
  }

 private:
  // The exponents of F64, or of F32, which are also those of BF16.
  static constexpr bool kDouble = std::is_same_v<Float, format::Float64>;
  static constexpr int kFieldBias = kDouble ? format::Float64::kBias : format::Float32::kBias;
  static constexpr std::size_t kFields = kDouble ? 2048 : 256;
  static constexpr std::size_t kTables = 4;  // neighbours with the same exponent do not wait for each other

  // A block of kBlock codes in the byte order of the machine. The codes after the first `count` are copies of the
  // first.
  void add_block(const std::byte* block, std::size_t count) {
    CodeRange range = kernel_.range(block);
    if (range.max >= std::int64_t{Float::kInfinity} || range.min < -std::int64_t{Float::kInfinity}) {
      count = take_specials(block, count);
      if (count == 0) return;
      block = reinterpret_cast<const std::byte*>(finite_);
      range = kernel_.range(block);
    }
    Bits first;
    std::memcpy(&first, block, sizeof first);
    const double number = to_number<Float>(first);
    Summary found{.finite = count, .zeros = range.zeros - (number == 0 ? kBlock - count : 0)};
    found.min = number_of_ordered<Float>(range.min);
    found.max = number_of_ordered<Float>(range.max);
    add_sums(block, is_exact<Float>(range), number, found);
    summary_.add(found);
    if (exponents_ != nullptr) count_exponents(block, count, found.zeros);
  }

  // Copies the finite numbers of a block to finite_, filled up with the first of them. Returns their number.
  std::size_t take_specials(const std::byte* block, std::size_t count) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Bits code;
      std::memcpy(&code, block + i * sizeof code, sizeof code);
      const double number = to_number<Float>(code);
      if (std::isfinite(number)) {
        finite_[kept++] = code;
      } else {
        summary_.add_special(number);
      }
    }
    if (kept != 0) std::fill(finite_ + kept, finite_ + kBlock, finite_[0]);
    return kept;
  }

  // first: a number of the block.
  void add_sums(const std::byte* block, bool exact, double first, Summary& found) noexcept {
    const auto sums = exact ? kernel_.exact_sums : kernel_.wide_sums;
    const auto count = static_cast<std::size_t>(found.finite);
    const auto size = static_cast<double>(count);
    found.scale = scale_exponent(std::max(found.max, -found.min));
    const double scale = found.scale == 0 ? 1 : found.scale > 0 ? 0x1p600 : 0x1p-600;
    if (found.scale != std::exchange(center_scale_, found.scale)) center_ = first * scale;
    BlockSums made = sums(block, count, center_, scale);
    const Wide mean = made.sum / size;
    const auto beside = [&] {  // the part of the squares that comes from the distance between center and mean
      const double distance = (mean.high - center_) + mean.low;
      return size * distance * distance;
    };
    if (beside() > made.squares / 4) {
      center_ = mean.high;
      made = sums(block, count, center_, scale);
    }
    found.sum = made.sum;
    found.squares = {std::max(0.0, made.squares - beside()), 0};
    center_ = mean.high;
  }

  // The exponents of F16 are counted as those of F32, where all its numbers are normal.
  void count_exponents(const std::byte* block, std::size_t count, std::uint64_t zeros) {
    if constexpr (std::is_same_v<Float, format::Float16>) {
      std::uint32_t floats[kBlock];
      format::cast(Dtype::F16, block, Dtype::F32, reinterpret_cast<std::byte*>(floats), count);
      count_fields<format::Float32>(reinterpret_cast<const std::byte*>(floats), count, zeros);
    } else {
      count_fields<Float>(block, count, zeros);
    }
  }

  template <class Counted>
  void count_fields(const std::byte* block, std::size_t count, std::uint64_t zeros) {
    typename Counted::Bits code;
    const std::uint64_t before = lowest();
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&code, block + i * sizeof code, sizeof code);
      ++fields_[i % kTables][code >> Counted::kMantissa];
    }
    if (lowest() - before == zeros) return;
    for (std::size_t i = 0; i < count; ++i) {  // subnormal numbers have the exponent field of zero
      std::memcpy(&code, block + i * sizeof code, sizeof code);
      const double number = to_number<Counted>(code);
      if ((code >> Counted::kMantissa) % kFields == 0 && number != 0) exponents_->add(number);
    }
  }

  // The number of zeros and subnormal numbers counted.
  [[nodiscard]] std::uint64_t lowest() const noexcept {
    std::uint64_t count = 0;
    for (const auto& table : fields_) count += std::uint64_t{table[0]} + table[kFields];
    return count;
  }

  const SumKernel kernel_;
  Summary& summary_;
  ExponentCounts* const exponents_;
  double center_ = 0;     // about the mean of the block before, scaled
  int center_scale_ = 1;  // the Summary::scale of this block; 1: none
  Bits buffer_[kBlock];
  Bits finite_[kBlock];
  std::uint32_t fields_[kTables][2 * kFields] = {};
};

template <class Float>
void add_floats(const std::byte* bytes, std::size_t size, Summary& summary, ExponentCounts* exponents) {
  Floats<Float>(summary, exponents).add(bytes, size / sizeof(typename Float::Bits));
}

template <class Integer>
void add_integers(const std::byte* bytes, std::size_t size, Summary& summary, ExponentCounts* exponents) {
  using Unsigned = std::make_unsigned_t<Integer>;
  Floats<format::Float64> floats(summary, exponents);
  const std::size_t count = size / sizeof(Integer);
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t now = std::min(kBlock, count - at);
    for (std::size_t i = 0; i < now; ++i) {
      const auto value = static_cast<Integer>(load<Unsigned>(bytes + (at + i) * sizeof(Integer)));
      floats.buffer()[i] = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    }
    floats.add_buffer(now);
  }
  floats.flush();
}

// Counts the codes of dtypes of 4, 6 and 8 bits.
std::array<std::uint64_t, 256> count_codes(unsigned width, const std::byte* bytes, std::size_t size) {
  std::array<std::uint64_t, 256> counts{};
  if (width == 6) {  // four codes in three bytes
    for (std::size_t i = 0; i + 3 <= size; i += 3) {
      const std::uint32_t four = std::to_integer<std::uint32_t>(bytes[i]) |
                                 std::to_integer<std::uint32_t>(bytes[i + 1]) << 8 |
                                 std::to_integer<std::uint32_t>(bytes[i + 2]) << 16;
      for (unsigned shift = 0; shift < 24; shift += 6) ++counts[four >> shift & 0x3F];
    }
    return counts;
  }
  constexpr std::size_t kTables = 4;
  std::uint32_t tables[kTables][256] = {};  // for chunks: a count has 32 bits
  for (std::size_t i = 0; i < size; ++i) ++tables[i % kTables][std::to_integer<std::size_t>(bytes[i])];
  for (std::size_t byte = 0; byte < 256; ++byte) {
    for (const auto& table : tables) {
      counts[width == 4 ? byte & 0xF : byte] += table[byte];
      if (width == 4) counts[byte >> 4] += table[byte];
    }
  }
  return counts;
}

double small_number(Dtype dtype, unsigned code) noexcept {
  if (dtype == Dtype::U8 || dtype == Dtype::BOOL) return code;
  if (dtype == Dtype::I8) return static_cast<std::int8_t>(code);
  return static_cast<double>(to_float(dtype, static_cast<std::uint16_t>(code)));
}

void add_codes(Dtype dtype, const std::byte* bytes, std::size_t size, Summary& summary, ExponentCounts* exponents) {
  const std::array<std::uint64_t, 256> counts = count_codes(bits(dtype), bytes, size);
  for (unsigned code = 0; code < 256; ++code) {
    if (counts[code] == 0) continue;
    const double number = small_number(dtype, code) + 0.0;
    if (!std::isfinite(number)) {
      summary.nan += std::isnan(number) ? counts[code] : 0;
      if (std::isinf(number)) (number > 0 ? summary.positive_infinity : summary.negative_infinity) += counts[code];
      continue;
    }
    summary.add({.finite = counts[code],
                 .zeros = number == 0 ? counts[code] : 0,
                 .min = number,
                 .max = number,
                 .sum = {number * static_cast<double>(counts[code]), 0}});
    if (exponents != nullptr && number != 0) exponents->add(number, counts[code]);
  }
}

}  // namespace

void Summarizer::add(Dtype dtype, const std::byte* bytes, std::size_t size, Summary& summary) {
  ExponentCounts* const exponents = with_histogram_ ? &exponents_ : nullptr;
  switch (dtype) {
    case Dtype::F32:
    case Dtype::C64:
      return add_floats<format::Float32>(bytes, size, summary, exponents);
    case Dtype::F64:
      return add_floats<format::Float64>(bytes, size, summary, exponents);
    case Dtype::F16:
      return add_floats<format::Float16>(bytes, size, summary, exponents);
    case Dtype::BF16:
      return add_floats<format::BFloat16>(bytes, size, summary, exponents);
    case Dtype::I16:
      return add_integers<std::int16_t>(bytes, size, summary, exponents);
    case Dtype::U16:
      return add_integers<std::uint16_t>(bytes, size, summary, exponents);
    case Dtype::I32:
      return add_integers<std::int32_t>(bytes, size, summary, exponents);
    case Dtype::U32:
      return add_integers<std::uint32_t>(bytes, size, summary, exponents);
    case Dtype::I64:
      return add_integers<std::int64_t>(bytes, size, summary, exponents);
    case Dtype::U64:
      return add_integers<std::uint64_t>(bytes, size, summary, exponents);
    default:
      return add_codes(dtype, bytes, size, summary, exponents);
  }
}

}  // namespace safetensors::check
