#include "format/dtype/cast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "format/dtype/cast_kernels.h"
#include "support/float_reference.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace {

using safetensors::all_dtypes;
using safetensors::bits;
using safetensors::Dtype;
using safetensors::to_string;
using safetensors::format::cast;
using safetensors::format::castable;
using safetensors::format::Instructions;
using safetensors::test::decode;
using safetensors::test::encode;
using safetensors::test::layout_of;

constexpr Dtype kFloats[] = {Dtype::F64,     Dtype::F32,         Dtype::F16,         Dtype::BF16,   Dtype::F8_E4M3,
                             Dtype::F8_E5M2, Dtype::F8_E4M3FNUZ, Dtype::F8_E5M2FNUZ, Dtype::F8_E8M0};
constexpr Dtype kSmall[] = {Dtype::F16,         Dtype::BF16,        Dtype::F8_E4M3, Dtype::F8_E5M2,
                            Dtype::F8_E4M3FNUZ, Dtype::F8_E5M2FNUZ, Dtype::F8_E8M0};
constexpr Dtype kIntegers[] = {Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64,
                               Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64};
using Codes = std::vector<std::uint64_t>;

std::vector<std::byte> pack(Dtype dtype, const Codes& codes) {
  const std::size_t size = bits(dtype) / 8;
  std::vector<std::byte> packed;
  packed.reserve(codes.size() * size);
  for (const std::uint64_t code : codes) {
    for (std::size_t i = 0; i < size; ++i) packed.push_back(static_cast<std::byte>(code >> (8 * i)));
  }
  return packed;
}

Codes unpack(Dtype dtype, const std::vector<std::byte>& packed) {
  const std::size_t size = bits(dtype) / 8;
  Codes codes(packed.size() / size);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    codes[i / size] |= std::to_integer<std::uint64_t>(packed[i]) << (8 * (i % size));
  }
  return codes;
}

Codes cast_codes(Instructions instructions, Dtype from, const Codes& codes, Dtype to) {
  std::vector<std::byte> out(codes.size() * bits(to) / 8);
  safetensors::format::cast_with(instructions, from, pack(from, codes).data(), to, out.data(), codes.size());
  return unpack(to, out);
}

std::uint64_t cast_one(Dtype from, std::uint64_t code, Dtype to) {
  const std::vector<std::byte> in = pack(from, {code});
  std::vector<std::byte> out(bits(to) / 8);
  cast(from, in.data(), to, out.data(), 1);
  return unpack(to, out)[0];
}

Codes all_codes(Dtype dtype) {
  Codes codes(std::size_t{1} << bits(dtype));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = i;
  return codes;
}

// With the exponents given: mantissas at, just below and just above every place where a bit may be cut off.
Codes boundary_codes(Dtype dtype, const std::set<std::uint64_t>& exponents) {
  const auto layout = layout_of(dtype);
  const std::uint64_t all = (std::uint64_t{1} << layout.mantissa_bits) - 1;
  std::set<std::uint64_t> mantissas;
  for (unsigned bit = 0; bit < layout.mantissa_bits; ++bit) {
    for (const std::uint64_t times : {1u, 2u, 3u, 5u, 7u}) {
      for (const std::uint64_t more : {0u, 1u}) {
        mantissas.insert(((times << bit) - more) & all);
        mantissas.insert(((times << bit) + more) & all);
        mantissas.insert((all - (times << bit) + more) & all);
      }
    }
  }
  Codes codes;
  for (const std::uint64_t exponent : exponents) {
    for (const std::uint64_t mantissa : mantissas) {
      codes.push_back(exponent << layout.mantissa_bits | mantissa);
      codes.push_back(codes.back() | std::uint64_t{1} << layout.sign_at());
    }
  }
  return codes;
}

// All exponents of F32; those of F64 that are near ones of the smaller dtypes, and the outermost. Then random ones.
Codes interesting_codes(Dtype dtype) {
  std::set<std::uint64_t> exponents;
  const std::uint64_t count = dtype == Dtype::F32 ? 256 : 2048;
  for (std::uint64_t e = 0; e < count; ++e) {
    const bool near = e + 155 > 1023 && e < 1023 + 131;
    if (dtype == Dtype::F32 || near || e < 3 || e + 3 > count) exponents.insert(e);
  }
  Codes codes = boundary_codes(dtype, exponents);
  std::mt19937_64 random(1);
  for (int i = 0; i < 50'000; ++i) {
    codes.push_back(random() >> (64 - bits(dtype)));
    if (dtype == Dtype::F64) codes.push_back((1023 - 155 + random() % 286) << 52 | random() >> 12);
  }
  return codes;
}

Codes codes_of(Dtype dtype) {
  return bits(dtype) <= 16 ? all_codes(dtype) : interesting_codes(dtype);
}

bool is_quiet(Dtype dtype, std::uint64_t code) {
  if (bits(dtype) == 8) return true;  // no signalling ones
  return code >> (layout_of(dtype).mantissa_bits - 1) & 1;
}

// NaN, of the sign that it had if both dtypes have one for it, and quiet unless bits are only moved.
bool is_kept_nan(Dtype from, std::uint64_t code, Dtype to, std::uint64_t got) {
  if (!std::isnan(decode(to, got))) return false;
  if (!(from == Dtype::BF16 && to == Dtype::F32) && !is_quiet(to, got)) return false;
  if (from == Dtype::F8_E8M0 || layout_of(from).fnuz) return layout_of(to).fnuz || got >> layout_of(to).sign_at() == 0;
  return layout_of(to).fnuz || (got >> layout_of(to).sign_at() != 0) == (code >> layout_of(from).sign_at() != 0);
}

std::string told(Dtype from, std::uint64_t code, Dtype to) {
  char text[128];
  std::snprintf(text, sizeof text, "%s %#llx as %s", to_string(from).data(), static_cast<unsigned long long>(code),
                to_string(to).data());
  return text;
}

// Every one of codes against the reference.
void expect_nearest(Instructions instructions, Dtype from, const Codes& codes, Dtype to) {
  const Codes got = cast_codes(instructions, from, codes, to);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const double value = decode(from, codes[i]);
    if (std::isnan(value)) {
      ASSERT_TRUE(is_kept_nan(from, codes[i], to, got[i])) << told(from, codes[i], to) << " is " << std::hex << got[i];
    } else {
      ASSERT_EQ(got[i], encode(to, value)) << told(from, codes[i], to);
    }
  }
}

class CastLoops : public testing::TestWithParam<Instructions> {
 protected:
  void SetUp() override {
    if (!safetensors::format::available(GetParam())) GTEST_SKIP() << "not on this processor";
  }
};
INSTANTIATE_TEST_SUITE_P(Cast, CastLoops, testing::Values(Instructions::portable, Instructions::avx2),
                         [](const auto& loops) {
                           return loops.param == Instructions::avx2 ? std::string("avx2") : std::string("portable");
                         });

TEST(Castable, AllowsFloatsExceptToE8M0AndIntegers) {
  for (const Dtype from : all_dtypes()) {
    for (const Dtype to : all_dtypes()) {
      const bool floats = std::count(std::begin(kFloats), std::end(kFloats), from) == 1 &&
                          std::count(std::begin(kFloats), std::end(kFloats), to) == 1;
      const bool integers = std::count(std::begin(kIntegers), std::end(kIntegers), from) == 1 &&
                            std::count(std::begin(kIntegers), std::end(kIntegers), to) == 1;
      EXPECT_EQ(castable(from, to), from == to || (floats && to != Dtype::F8_E8M0) || integers)
          << to_string(from) << " to " << to_string(to);
    }
  }
}

TEST(Cast, CopiesEqualDtypes) {
  for (const Dtype dtype : all_dtypes()) {
    for (const std::size_t count : {0u, 4u, 12u, 72u}) {
      std::vector<std::byte> in(count * bits(dtype) / 8);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 37 + 1);
      std::vector<std::byte> out(in.size());
      cast(dtype, in.data(), dtype, out.data(), count);
      EXPECT_EQ(in, out) << to_string(dtype);
    }
  }
  EXPECT_EQ(cast_one(Dtype::F16, 0x7C01, Dtype::F16), 0x7C01u);  // a signalling NaN
}

TEST_P(CastLoops, RestoreValuesAfterRoundTrip) {
  for (const Dtype from : kSmall) {
    if (from == Dtype::F8_E8M0) continue;
    Codes codes = all_codes(from);
    std::erase_if(codes, [&](std::uint64_t code) { return std::isnan(decode(from, code)); });
    for (const Dtype over : {Dtype::F32, Dtype::F64}) {
      EXPECT_EQ(cast_codes(GetParam(), over, cast_codes(GetParam(), from, codes, over), from), codes)
          << to_string(from) << " over " << to_string(over);
    }
  }
  Codes codes = interesting_codes(Dtype::F32);
  std::erase_if(codes, [&](std::uint64_t code) { return std::isnan(decode(Dtype::F32, code)); });
  EXPECT_EQ(cast_codes(GetParam(), Dtype::F64, cast_codes(GetParam(), Dtype::F32, codes, Dtype::F64), Dtype::F32),
            codes);
}

TEST_P(CastLoops, RoundToNearestEven) {
  for (const Dtype from : kFloats) {
    const Codes codes = codes_of(from);
    for (const Dtype to : kFloats) {
      if (from != to && castable(from, to)) expect_nearest(GetParam(), from, codes, to);
    }
  }
}

struct Fact {
  Dtype to;
  std::uint64_t infinity, minus_infinity, largest_f32, nan, minus_nan, signalling_nan, minus_zero, minus_smallest_f32;
};

TEST_P(CastLoops, ConvertF32LimitsAndNans) {
  const Codes codes{0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x80000000, 0x80000001};
  const Fact facts[] = {
      {Dtype::F64, 0x7FF0000000000000, 0xFFF0000000000000, 0x47EFFFFFE0000000, 0x7FF8000000000000, 0xFFF8000000000000,
       0x7FF8000020000000, 0x8000000000000000, 0xB6A0000000000000},
      {Dtype::F16, 0x7C00, 0xFC00, 0x7C00, 0x7E00, 0xFE00, 0x7E00, 0x8000, 0x8000},
      {Dtype::BF16, 0x7F80, 0xFF80, 0x7F80, 0x7FC0, 0xFFC0, 0x7FC0, 0x8000, 0x8000},
      {Dtype::F8_E4M3, 0x7E, 0xFE, 0x7E, 0x7F, 0xFF, 0x7F, 0x80, 0x80},
      {Dtype::F8_E5M2, 0x7C, 0xFC, 0x7C, 0x7F, 0xFF, 0x7F, 0x80, 0x80},
      {Dtype::F8_E4M3FNUZ, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00},
      {Dtype::F8_E5M2FNUZ, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00},
  };
  for (const Fact& fact : facts) {
    const Codes expected{fact.infinity,  fact.minus_infinity, fact.largest_f32, fact.nan,
                         fact.minus_nan, fact.signalling_nan, fact.minus_zero,  fact.minus_smallest_f32};
    EXPECT_EQ(cast_codes(GetParam(), Dtype::F32, codes, fact.to), expected) << to_string(fact.to);
  }
}

TEST_P(CastLoops, OverflowAtExactLimits) {
  const auto code_of = [](double value) { return encode(Dtype::F32, value); };
  const struct {
    Dtype to;
    double last;  // the largest that is rounded to the dtype's largest number, which is odd but in F8_E4M3
    std::uint64_t largest, beyond;
  } facts[] = {{Dtype::F16, 65519.996, 0x7BFF, 0x7C00},
               {Dtype::F8_E4M3, 464, 0x7E, 0x7E},
               {Dtype::F8_E5M2, 61439.996, 0x7B, 0x7C},
               {Dtype::F8_E4M3FNUZ, 247.99998, 0x7F, 0x80},
               {Dtype::F8_E5M2FNUZ, 61439.996, 0x7F, 0x80}};
  for (const auto& fact : facts) {
    const std::uint64_t last = code_of(fact.last);
    EXPECT_EQ(cast_codes(GetParam(), Dtype::F32, {last, last + 1}, fact.to), (Codes{fact.largest, fact.beyond}))
        << to_string(fact.to);
  }
}

TEST(Cast, GivesSameBitsInAllLoops) {
  if (!safetensors::format::available(Instructions::avx2)) GTEST_SKIP() << "one kind of loops on this processor";
  for (const Dtype from : kFloats) {
    const Codes codes = codes_of(from);  // NaNs among them
    for (const Dtype to : kFloats) {
      if (!castable(from, to)) continue;
      EXPECT_EQ(cast_codes(Instructions::portable, from, codes, to), cast_codes(Instructions::avx2, from, codes, to))
          << to_string(from) << " to " << to_string(to);
    }
  }
}

// Exactly the elements asked for, at any address: also what an address sanitizer sees.
TEST_P(CastLoops, HandleAnyCountAtAnyAddress) {
  std::vector<std::size_t> counts(71);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = i;
  counts.insert(counts.end(), {127, 128, 129, 200, 511, 512, 513, 1100});
  std::mt19937_64 random(2);
  for (const Dtype from : kFloats) {
    Codes codes(1100);
    for (std::uint64_t& code : codes) code = random() >> (64 - bits(from));
    for (const Dtype to : kFloats) {
      if (!castable(from, to)) continue;
      const std::vector<std::byte> expected = pack(to, cast_codes(GetParam(), from, codes, to));
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const std::size_t shift_in = i % 9, shift_out = i * 5 % 11;
        const std::size_t size_in = counts[i] * bits(from) / 8, size_out = counts[i] * bits(to) / 8;
        std::vector<std::byte> in(shift_in + size_in);
        const std::vector<std::byte> packed = pack(from, codes);
        std::copy_n(packed.begin(), size_in, in.begin() + static_cast<std::ptrdiff_t>(shift_in));
        std::vector<std::byte> out(shift_out + size_out, std::byte{0xA5});
        safetensors::format::cast_with(GetParam(), from, in.data() + shift_in, to, out.data() + shift_out, counts[i]);
        std::vector<std::byte> whole(shift_out, std::byte{0xA5});
        whole.insert(whole.end(), expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(size_out));
        ASSERT_EQ(out, whole) << to_string(from) << " to " << to_string(to) << ", " << counts[i];
      }
    }
  }
}

TEST_P(CastLoops, IgnoreFloatingPointMode) {
  for (const Dtype from : kFloats) {
    const Codes codes = codes_of(from);
    for (const Dtype to : kFloats) {
      if (!castable(from, to)) continue;
      const std::vector<std::byte> in = pack(from, codes);
      std::vector<std::byte> plain(codes.size() * bits(to) / 8), other(plain.size());
      safetensors::format::cast_with(GetParam(), from, in.data(), to, plain.data(), codes.size());
      for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        ASSERT_EQ(std::fesetround(mode), 0);
#if defined(__SSE2__)
        const unsigned before = _mm_getcsr();
        _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
#endif
        safetensors::format::cast_with(GetParam(), from, in.data(), to, other.data(), codes.size());
#if defined(__SSE2__)
        _mm_setcsr(before);
#endif
        ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
        ASSERT_EQ(plain, other) << to_string(from) << " to " << to_string(to);
      }
    }
  }
}

// A signalling NaN and a number that is too large set no flags of the thread and cause no traps.
TEST_P(CastLoops, RaiseNoFloatingPointExceptions) {
  for (const Dtype from : kFloats) {
    const Codes codes = codes_of(from);
    const std::vector<std::byte> in = pack(from, codes);
    for (const Dtype to : kFloats) {
      if (!castable(from, to)) continue;
      std::vector<std::byte> plain(codes.size() * bits(to) / 8), other(plain.size());
      std::feclearexcept(FE_ALL_EXCEPT);
      std::feraiseexcept(FE_DIVBYZERO);
      safetensors::format::cast_with(GetParam(), from, in.data(), to, plain.data(), codes.size());
      EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO) << to_string(from) << " to " << to_string(to);
      std::feclearexcept(FE_ALL_EXCEPT);
#if defined(__GLIBC__)
      const int before = ::feenableexcept(FE_ALL_EXCEPT);
      safetensors::format::cast_with(GetParam(), from, in.data(), to, other.data(), codes.size());
      const int trapped = ::fegetexcept();
      ::fedisableexcept(FE_ALL_EXCEPT);
      // Only if the processor has traps.
      EXPECT_TRUE(before == -1 || trapped == FE_ALL_EXCEPT);
      EXPECT_EQ(plain, other) << to_string(from) << " to " << to_string(to);
#endif
    }
  }
}

}  // namespace
