// The loops that read every element once for its range and once for its sums. Between the two, a block stays in the L1
// cache.
//
// Range: integer arithmetic on codes, which compilers turn into vector code, and which no floating-point mode changes.
// Sums: 16 independent sums, which are added at the end. The first one has the numbers 0, 16, 32, ... AVX2 holds them
// in four registers each. If sums may be rounded, there are 8 of them, each with the sum of its rounding errors.
// Without FMA, both variants round in the same way.
#include "check/sum_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__)
#define SAFETENSORS_SUM_AVX2 1
#include <immintrin.h>
#else
#define SAFETENSORS_SUM_AVX2 0
#endif

namespace safetensors::check {
namespace {

template <bool kExact>
constexpr std::size_t kLanes = kExact ? 16 : 8;

template <class Float>
[[gnu::always_inline]] inline typename Float::Bits code_at(const std::byte* block, std::size_t index) noexcept {
  typename Float::Bits code;
  std::memcpy(&code, block + index * sizeof code, sizeof code);
  return code;
}

template <class Float>
[[gnu::always_inline]] inline float float_of(typename Float::Bits code) noexcept {
  if constexpr (std::is_same_v<Float, format::Float32>) {
    return std::bit_cast<float>(code);
  } else {
    return std::bit_cast<float>(format::widen<Float, format::Float32>(code));
  }
}

template <class Float>
[[gnu::always_inline]] inline double number_of(typename Float::Bits code) noexcept {
  if constexpr (std::is_same_v<Float, format::Float64>) {
    return std::bit_cast<double>(code);
  } else {
    return static_cast<double>(float_of<Float>(code));
  }
}

template <class Float>
[[gnu::always_inline]] inline CodeRange range_of(const std::byte* block) noexcept {
  using Bits = typename Float::Bits;
  using Signed = std::make_signed_t<Bits>;
  constexpr unsigned sign = 8 * sizeof(Bits) - 1;
  constexpr auto magnitude = static_cast<Signed>((Bits{1} << sign) - 1);
  Signed min = magnitude;
  Signed max = static_cast<Signed>(~magnitude);
  Bits zeros = 0;
  Bits smallest = static_cast<Bits>(~Bits{0});  // minus 1, so that a zero is the largest
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto code = static_cast<Signed>(code_at<Float>(block, i));
    const auto ordered = static_cast<Signed>(code ^ ((code >> sign) & magnitude));
    min = std::min(min, ordered);
    max = std::max(max, ordered);
    zeros = static_cast<Bits>(zeros + Bits{(code & magnitude) == 0});
    if constexpr (sign < 63) smallest = std::min(smallest, static_cast<Bits>((code & magnitude) - 1));
  }
  return {min, max, static_cast<std::uint32_t>(zeros), static_cast<std::uint32_t>(static_cast<Bits>(smallest + 1))};
}

template <std::size_t kCount>
[[gnu::always_inline]] inline double tree_sum(double (&lanes)[kCount]) noexcept {
  for (std::size_t width = kCount / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

template <bool kExact>
[[gnu::always_inline]] inline void add_number(double number, double center, double& sum, double& error,
                                              double& squares) noexcept {
  const double distance = number - center;
  squares += distance * distance;
  if constexpr (kExact) {
    sum += number;
  } else {
    const Wide added = two_sum(sum, number);
    sum = added.high;
    error += added.low;
  }
}

// The sums of the lanes, and of the numbers from `begin` to `end`, which are fewer than the lanes.
template <class Float, bool kExact>
[[gnu::always_inline]] inline BlockSums total(double (&sum)[kLanes<kExact>], double (&error)[kLanes<kExact>],
                                              double (&squares)[kLanes<kExact>], const std::byte* block,
                                              std::size_t begin, std::size_t end, double center,
                                              double scale) noexcept {
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t lane = i - begin;
    const double number = number_of<Float>(code_at<Float>(block, i)) * scale;
    add_number<kExact>(number, center, sum[lane], error[lane], squares[lane]);
  }
  Wide all;
  double rest = 0;
  for (std::size_t lane = 0; lane < kLanes<kExact>; ++lane) {
    all = two_sum(all.high, sum[lane]);
    rest += all.low + error[lane];
  }
  return {two_sum(all.high, rest), tree_sum(squares)};
}

struct Portable {
  template <class Float>
  static CodeRange range(const std::byte* block) noexcept {
    return range_of<Float>(block);
  }
  template <class Float, bool kExact>
  static BlockSums sums(const std::byte* block, std::size_t count, double center, double scale) noexcept {
    constexpr std::size_t lanes = kLanes<kExact>;
    double sum[lanes] = {};
    double error[lanes] = {};
    double squares[lanes] = {};
    const std::size_t whole = count - count % lanes;
    for (std::size_t i = 0; i < whole; i += lanes) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const double number = number_of<Float>(code_at<Float>(block, i + lane)) * scale;
        add_number<kExact>(number, center, sum[lane], error[lane], squares[lane]);
      }
    }
    return total<Float, kExact>(sum, error, squares, block, whole, count, center, scale);
  }
};

#if SAFETENSORS_SUM_AVX2
#define SAFETENSORS_AVX2 gnu::target("avx2,f16c")

struct Avx2 {
  template <class Float>
  [[SAFETENSORS_AVX2]] static CodeRange range(const std::byte* block) noexcept {
    return range_of<Float>(block);
  }

  // The four numbers from `index` on.
  template <class Float>
  [[SAFETENSORS_AVX2, gnu::always_inline]] static inline __m256d four_at(const std::byte* block,
                                                                         std::size_t index) noexcept {
    const std::byte* const at = block + index * sizeof(typename Float::Bits);
    if constexpr (std::is_same_v<Float, format::Float64>) {
      return _mm256_loadu_pd(reinterpret_cast<const double*>(at));
    } else if constexpr (std::is_same_v<Float, format::Float32>) {
      return _mm256_cvtps_pd(_mm_loadu_ps(reinterpret_cast<const float*>(at)));
    } else {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
      if constexpr (std::is_same_v<Float, format::Float16>) return _mm256_cvtps_pd(_mm_cvtph_ps(codes));
      return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), codes)));
    }
  }

  struct Sums {
    __m256d sum;
    __m256d error;
    __m256d squares;
  };

  template <class Float, bool kExact>
  [[SAFETENSORS_AVX2, gnu::always_inline]] static inline void add_four(const std::byte* block, std::size_t index,
                                                                       const __m256d& center, const __m256d& scale,
                                                                       Sums& sums) noexcept {
    const __m256d number = _mm256_mul_pd(four_at<Float>(block, index), scale);
    const __m256d distance = _mm256_sub_pd(number, center);
    sums.squares = _mm256_add_pd(sums.squares, _mm256_mul_pd(distance, distance));
    const __m256d sum = _mm256_add_pd(sums.sum, number);
    if constexpr (!kExact) {  // as two_sum()
      const __m256d rest = _mm256_sub_pd(sum, sums.sum);
      const __m256d lost = _mm256_sub_pd(sums.sum, _mm256_sub_pd(sum, rest));
      sums.error = _mm256_add_pd(sums.error, _mm256_add_pd(lost, _mm256_sub_pd(number, rest)));
    }
    sums.sum = sum;
  }

  template <class Float, bool kExact>
  [[SAFETENSORS_AVX2]] static BlockSums sums(const std::byte* block, std::size_t count, double center,
                                             double scale) noexcept {
    constexpr std::size_t lanes = kLanes<kExact>;
    const __m256d centers = _mm256_set1_pd(center);
    const __m256d scales = _mm256_set1_pd(scale);
    const Sums none = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    Sums a = none, b = none, c = none, d = none;
    const std::size_t whole = count - count % lanes;
    for (std::size_t i = 0; i < whole; i += lanes) {
      add_four<Float, kExact>(block, i, centers, scales, a);
      add_four<Float, kExact>(block, i + 4, centers, scales, b);
      if constexpr (!kExact) continue;
      add_four<Float, kExact>(block, i + 8, centers, scales, c);
      add_four<Float, kExact>(block, i + 12, centers, scales, d);
    }
    double sum[lanes], error[lanes], squares[lanes];
    const Sums* const fours[] = {&a, &b, &c, &d};
    for (std::size_t lane = 0; lane < lanes; lane += 4) {
      _mm256_storeu_pd(sum + lane, fours[lane / 4]->sum);
      _mm256_storeu_pd(error + lane, fours[lane / 4]->error);
      _mm256_storeu_pd(squares + lane, fours[lane / 4]->squares);
    }
    return total<Float, kExact>(sum, error, squares, block, whole, count, center, scale);
  }
};
#endif

template <class Loops, class Float>
constexpr SumKernel kernel_of() noexcept {
  return {Loops::template range<Float>, Loops::template sums<Float, true>, Loops::template sums<Float, false>};
}

}  // namespace

template <class Float>
SumKernel sum_kernel(bool avx2) noexcept {
#if SAFETENSORS_SUM_AVX2
  if (avx2) return kernel_of<Avx2, Float>();
#endif
  static_cast<void>(avx2);
  return kernel_of<Portable, Float>();
}

template SumKernel sum_kernel<format::Float64>(bool avx2) noexcept;
template SumKernel sum_kernel<format::Float32>(bool avx2) noexcept;
template SumKernel sum_kernel<format::Float16>(bool avx2) noexcept;
template SumKernel sum_kernel<format::BFloat16>(bool avx2) noexcept;

}  // namespace safetensors::check
