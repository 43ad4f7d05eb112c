// The loops that read every element once for its range and once for its sums. A block stays in the L1 cache between.
//
// Range: integer arithmetic on codes, which compilers turn into vector code, and which no floating-point mode changes.
// Sums: 16 independent sums, of the numbers 0, 16, 32, ... and so on, which are added in a tree at the end. AVX2 holds
// them in four registers each. Without FMA, both variants round in the same way. To convert 16-bit floats to double
// costs more than to add them, so the fast sums add four floats first. Their mantissas are short: most of these sums
// are exact.
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

constexpr std::size_t kLanes = 16;
constexpr std::size_t kFastLanes = 8;
static_assert(kBlock % kLanes == 0 && kBlock % (4 * kFastLanes) == 0);

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
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto code = static_cast<Signed>(code_at<Float>(block, i));
    const auto ordered = static_cast<Signed>(code ^ ((code >> sign) & magnitude));
    min = std::min(min, ordered);
    max = std::max(max, ordered);
    zeros = static_cast<Bits>(zeros + Bits{(code & magnitude) == 0});
  }
  return {min, max, static_cast<std::uint32_t>(zeros)};
}

template <std::size_t kCount>
[[gnu::always_inline]] inline double tree_sum(double (&lanes)[kCount]) noexcept {
  for (std::size_t width = kCount / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

struct Portable {
  template <class Float>
  static CodeRange range(const std::byte* block) noexcept {
    return range_of<Float>(block);
  }
  template <class Float>
  static BlockSums sums(const std::byte* block, double center) noexcept {
    double sum[kLanes] = {};
    double squares[kLanes] = {};
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double distance = number_of<Float>(code_at<Float>(block, i + lane)) - center;
        sum[lane] += distance;
        squares[lane] += distance * distance;
      }
    }
    return {tree_sum(sum), tree_sum(squares)};
  }
  template <class Float>
  static BlockSums fast_sums(const std::byte* block, double center) noexcept {
    double sum[kFastLanes] = {};
    double squares[kFastLanes] = {};
    const auto middle = static_cast<float>(center);
    for (std::size_t i = 0; i < kBlock; i += 4 * kFastLanes) {
      for (std::size_t lane = 0; lane < kFastLanes; ++lane) {
        float d[4];
        for (std::size_t j = 0; j < 4; ++j)
          d[j] = float_of<Float>(code_at<Float>(block, i + j * kFastLanes + lane)) - middle;
        sum[lane] += static_cast<double>((d[0] + d[1]) + (d[2] + d[3]));
        squares[lane] += static_cast<double>((d[0] * d[0] + d[1] * d[1]) + (d[2] * d[2] + d[3] * d[3]));
      }
    }
    return {tree_sum(sum), tree_sum(squares)};
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
    __m256d distances;
    __m256d squares;
  };

  template <class Float>
  [[SAFETENSORS_AVX2, gnu::always_inline]] static inline void add_four(const std::byte* block, std::size_t index,
                                                                       const __m256d& center, Sums& sums) noexcept {
    const __m256d distance = _mm256_sub_pd(four_at<Float>(block, index), center);
    sums.distances = _mm256_add_pd(sums.distances, distance);
    sums.squares = _mm256_add_pd(sums.squares, _mm256_mul_pd(distance, distance));
  }

  template <class Float>
  [[SAFETENSORS_AVX2]] static BlockSums sums(const std::byte* block, double center) noexcept {
    const __m256d centers = _mm256_set1_pd(center);
    const Sums none = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    Sums a = none, b = none, c = none, d = none;
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      add_four<Float>(block, i, centers, a);
      add_four<Float>(block, i + 4, centers, b);
      add_four<Float>(block, i + 8, centers, c);
      add_four<Float>(block, i + 12, centers, d);
    }
    double distances[kLanes];
    double squares[kLanes];
    std::size_t lane = 0;
    for (const Sums* const four : {&a, &b, &c, &d}) {
      _mm256_storeu_pd(distances + lane, four->distances);
      _mm256_storeu_pd(squares + lane, four->squares);
      lane += 4;
    }
    return {tree_sum(distances), tree_sum(squares)};
  }

  template <class Float>
  [[SAFETENSORS_AVX2, gnu::always_inline]] static inline __m256 eight_at(const std::byte* block,
                                                                         std::size_t index) noexcept {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 2 * index));
    if constexpr (std::is_same_v<Float, format::Float16>) return _mm256_cvtph_ps(codes);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
  }

  [[SAFETENSORS_AVX2, gnu::always_inline]] static inline void add_eight(const __m256& numbers, __m256d& low,
                                                                        __m256d& high) noexcept {
    low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(numbers)));
    high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(numbers, 1)));
  }

  template <class Float>
  [[SAFETENSORS_AVX2]] static BlockSums fast_sums(const std::byte* block, double center) noexcept {
    const __m256 middle = _mm256_set1_ps(static_cast<float>(center));
    __m256d sum_low = _mm256_setzero_pd(), sum_high = sum_low, squares_low = sum_low, squares_high = sum_low;
    for (std::size_t i = 0; i < kBlock; i += 4 * kFastLanes) {
      const __m256 a = _mm256_sub_ps(eight_at<Float>(block, i), middle);
      const __m256 b = _mm256_sub_ps(eight_at<Float>(block, i + 8), middle);
      const __m256 c = _mm256_sub_ps(eight_at<Float>(block, i + 16), middle);
      const __m256 d = _mm256_sub_ps(eight_at<Float>(block, i + 24), middle);
      add_eight(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)), sum_low, sum_high);
      const __m256 ab = _mm256_add_ps(_mm256_mul_ps(a, a), _mm256_mul_ps(b, b));
      const __m256 cd = _mm256_add_ps(_mm256_mul_ps(c, c), _mm256_mul_ps(d, d));
      add_eight(_mm256_add_ps(ab, cd), squares_low, squares_high);
    }
    double sum[kFastLanes];
    double squares[kFastLanes];
    _mm256_storeu_pd(sum, sum_low);
    _mm256_storeu_pd(sum + 4, sum_high);
    _mm256_storeu_pd(squares, squares_low);
    _mm256_storeu_pd(squares + 4, squares_high);
    return {tree_sum(sum), tree_sum(squares)};
  }
};
#endif

}  // namespace

template <class Float>
SumKernel sum_kernel(bool avx2) noexcept {
  constexpr bool fast = sizeof(typename Float::Bits) == 2;
#if SAFETENSORS_SUM_AVX2
  if (avx2) {
    SumKernel kernel = {Avx2::range<Float>, Avx2::sums<Float>, nullptr};
    if constexpr (fast) kernel.fast_sums = Avx2::fast_sums<Float>;
    return kernel;
  }
#endif
  static_cast<void>(avx2);
  SumKernel kernel = {Portable::range<Float>, Portable::sums<Float>, nullptr};
  if constexpr (fast) kernel.fast_sums = Portable::fast_sums<Float>;
  return kernel;
}

template SumKernel sum_kernel<format::Float64>(bool avx2) noexcept;
template SumKernel sum_kernel<format::Float32>(bool avx2) noexcept;
template SumKernel sum_kernel<format::Float16>(bool avx2) noexcept;
template SumKernel sum_kernel<format::BFloat16>(bool avx2) noexcept;

}  // namespace safetensors::check
