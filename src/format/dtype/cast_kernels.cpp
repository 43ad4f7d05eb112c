// Converts floats with loops, in two variants: portable, and AVX2 with F16C. Each loop converts one dtype to another.
// A pair of dtypes without a loop takes two loops, through F32.
//
// Both variants compile the same conversions from cast_float.h, so they give the same bits. Only between F16 and F32,
// AVX2 uses instructions of the processor instead, which also give these bits. A loop always converts kLoopElements
// elements, because a constant count lets the compiler make vector code. The rest of an array goes through a padded
// buffer.
#include "format/dtype/cast_kernels.h"

#include <algorithm>

#include "format/dtype/cast_elements.h"
#include "format/dtype/cast_float.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define SAFETENSORS_CAST_AVX2 1
#include <cpuid.h>
#include <xmmintrin.h>
#else
#define SAFETENSORS_CAST_AVX2 0
#endif

namespace safetensors::format {
namespace {

// F32 elements between two kernels: 2 KiB, which stay in the L1 cache.
constexpr std::size_t kBufferElements = 4 * kLoopElements;

template <class From, class To>
[[gnu::always_inline]] inline void convert_elements(const std::byte* __restrict in,
                                                    std::byte* __restrict out) noexcept {
  for (std::size_t i = 0; i < kLoopElements; ++i) {
    typename From::Bits bits;
    std::memcpy(&bits, in + i * sizeof bits, sizeof bits);
    const auto converted = swap_if_big_endian(convert<From, To>(swap_if_big_endian(bits)));
    std::memcpy(out + i * sizeof converted, &converted, sizeof converted);
  }
}

struct Portable {
  template <class From, class To>
  static void block(const std::byte* in, std::byte* out) noexcept {
    convert_elements<From, To>(in, out);
  }
};

#if SAFETENSORS_CAST_AVX2
// Asks the processor only once, because the instruction CPUID takes microseconds in a virtual machine. Calls CPUID for
// F16C, because __builtin_cpu_supports() of clang 14 does not know F16C.
bool has_avx2_and_f16c() noexcept {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("avx2") != 0 && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return has;
}

// While this object exists, conversions by the processor raise no floating-point exceptions and change no flags of the
// thread. The portable loops need no such protection, because they use integer arithmetic.
class QuietConversions {
 public:
  QuietConversions() noexcept : before_(_mm_getcsr()) {
    _mm_setcsr(0x1F80);  // the default: every exception masked, no flag set
    // A barrier: compilers do not know that conversions depend on the mode. Without a barrier, they could move
    // conversions before the change of the mode.
    __asm__ volatile("" ::: "memory");
  }
  QuietConversions(const QuietConversions&) = delete;
  QuietConversions& operator=(const QuietConversions&) = delete;
  ~QuietConversions() {
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(before_);
  }

 private:
  const unsigned before_;
};

// Calls builtins of the compiler, because <immintrin.h> needs 85 MB more memory to compile. Objects of the two types
// may have any address. A variable declared with `auto` loses this property.
struct Avx2 {
  using Half __attribute__((vector_size(16), aligned(1), may_alias)) = short;
  using Float __attribute__((vector_size(32), aligned(1), may_alias)) = float;

  template <class From, class To>
  [[gnu::target("avx2,f16c")]] static void block(const std::byte* in, std::byte* out) noexcept {
    if constexpr (std::is_same_v<From, Float16> && std::is_same_v<To, Float32>) {
      for (std::size_t i = 0; i < kLoopElements; i += 8) {
#if defined(__clang__) && __clang_major__ >= 16  // clang 22 lacks the builtin, older ones lack the type _Float16
        using Float16s __attribute__((vector_size(16), aligned(1), may_alias)) = _Float16;
        *reinterpret_cast<Float*>(out + i * 4) =
            __builtin_convertvector(*reinterpret_cast<const Float16s*>(in + i * 2), Float);
#else
        *reinterpret_cast<Float*>(out + i * 4) =
            __builtin_ia32_vcvtph2ps256(*reinterpret_cast<const Half*>(in + i * 2));
#endif
      }
    } else if constexpr (std::is_same_v<From, Float32> && std::is_same_v<To, Float16>) {
      for (std::size_t i = 0; i < kLoopElements; i += 8) {
        const Float& value = *reinterpret_cast<const Float*>(in + i * 4);
        // 0: round to nearest, ties to even.
        *reinterpret_cast<Half*>(out + i * 2) = __builtin_ia32_vcvtps2ph256(value, 0);
      }
    } else {
      convert_elements<From, To>(in, out);
    }
  }
};
#endif

template <class Loops, class From, class To>
void convert_all(const std::byte* in, std::byte* out, std::size_t count) noexcept {
  constexpr std::size_t from_size = sizeof(typename From::Bits);
  constexpr std::size_t to_size = sizeof(typename To::Bits);
  for (; count >= kLoopElements; count -= kLoopElements) {
    Loops::template block<From, To>(in, out);
    in += kLoopElements * from_size;
    out += kLoopElements * to_size;
  }
  if (count == 0) return;
  std::byte rest[kLoopElements * from_size] = {};
  std::byte converted[kLoopElements * to_size];
  std::memcpy(rest, in, count * from_size);
  Loops::template block<From, To>(rest, converted);
  std::memcpy(out, converted, count * to_size);
}

// clang-format off
template <class Loops>
CastKernel to_float32(Dtype from) noexcept {
  switch (from) {
    case Dtype::F64: return convert_all<Loops, Float64, Float32>;
    case Dtype::F16: return convert_all<Loops, Float16, Float32>;
    case Dtype::BF16: return convert_all<Loops, BFloat16, Float32>;
    case Dtype::F8_E4M3: return convert_all<Loops, Float8E4M3, Float32>;
    case Dtype::F8_E5M2: return convert_all<Loops, Float8E5M2, Float32>;
    case Dtype::F8_E4M3FNUZ: return convert_all<Loops, Float8E4M3Fnuz, Float32>;
    case Dtype::F8_E5M2FNUZ: return convert_all<Loops, Float8E5M2Fnuz, Float32>;
    case Dtype::F8_E8M0: return convert_all<Loops, Float8E8M0, Float32>;
    default: return nullptr;
  }
}

template <class Loops, class From>
CastKernel to_narrow(Dtype to) noexcept {
  switch (to) {
    case Dtype::F16: return convert_all<Loops, From, Float16>;
    case Dtype::BF16: return convert_all<Loops, From, BFloat16>;
    case Dtype::F8_E4M3: return convert_all<Loops, From, Float8E4M3>;
    case Dtype::F8_E5M2: return convert_all<Loops, From, Float8E5M2>;
    case Dtype::F8_E4M3FNUZ: return convert_all<Loops, From, Float8E4M3Fnuz>;
    case Dtype::F8_E5M2FNUZ: return convert_all<Loops, From, Float8E5M2Fnuz>;
    default: return nullptr;
  }
}
// clang-format on

template <class Loops>
CastKernel kernel(Dtype from, Dtype to) noexcept {
  if (to == Dtype::F32) return to_float32<Loops>(from);
  if (from == Dtype::F32)
    return to == Dtype::F64 ? convert_all<Loops, Float32, Float64> : to_narrow<Loops, Float32>(to);
  return from == Dtype::F64 ? to_narrow<Loops, Float64>(to) : nullptr;
}

void cast_loops(Instructions instructions, Dtype from, const std::byte* in, Dtype to, std::byte* out,
                std::size_t count) noexcept {
  if (const CastKernel kernel = cast_kernel(from, to, instructions)) return kernel(in, out, count);
  // Go through F32, which holds every number of the smaller dtypes.
  const CastKernel first = cast_kernel(from, Dtype::F32, instructions);
  const CastKernel second = cast_kernel(Dtype::F32, to, instructions);
  std::byte buffer[kBufferElements * sizeof(float)];
  while (count > 0) {
    const std::size_t now = std::min(count, kBufferElements);
    first(in, buffer, now);
    second(buffer, out, now);
    in += now * (bits(from) / 8);
    out += now * (bits(to) / 8);
    count -= now;
  }
}

void copy(Dtype dtype, const std::byte* in, std::byte* out, std::size_t count) noexcept {
  // The size is in bytes. The product count * bits(dtype) could overflow.
  const std::size_t size = count / 8 * bits(dtype) + count % 8 * bits(dtype) / 8;
  if (size != 0) std::memcpy(out, in, size);
}

}  // namespace

bool available(Instructions instructions) noexcept {
#if SAFETENSORS_CAST_AVX2
  if (instructions == Instructions::avx2) return has_avx2_and_f16c();
#endif
  return instructions == Instructions::portable;
}

CastKernel cast_kernel(Dtype from, Dtype to, Instructions instructions) noexcept {
#if SAFETENSORS_CAST_AVX2
  if (instructions == Instructions::avx2) return kernel<Avx2>(from, to);
#endif
  return instructions == Instructions::portable ? kernel<Portable>(from, to) : nullptr;
}

void cast_with(Instructions instructions, Dtype from, const std::byte* in, Dtype to, std::byte* out,
               std::size_t count) noexcept {
  if (from == to) return copy(from, in, out, count);
#if SAFETENSORS_CAST_AVX2
  if (instructions == Instructions::avx2) {
    const QuietConversions quiet;
    return cast_loops(instructions, from, in, to, out, count);
  }
#endif
  cast_loops(instructions, from, in, to, out, count);
}

}  // namespace safetensors::format
