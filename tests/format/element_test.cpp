// Tests which dtypes each C++ type accepts, and the values of small floats.
#include <gtest/gtest.h>
#include <safetensors/element.h>

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "support/float_reference.h"

namespace safetensors::test {
namespace {

// Returns the names of the dtypes that T accepts, in the order of all_dtypes().
template <class T>
std::string accepted() {
  std::string names;
  for (const Dtype dtype : all_dtypes()) {
    if (ElementOf<T>::accepts(dtype)) names += (names.empty() ? "" : " ") + std::string(to_string(dtype));
  }
  return names;
}

struct LikeComplex {  // like the complex numbers of other libraries
  float re, im;
  [[nodiscard]] float real() const { return re; }
  [[nodiscard]] float imag() const { return im; }
};
struct OwnHalf {
  std::uint16_t bits;
};

}  // namespace
}  // namespace safetensors::test

template <>
struct safetensors::ElementOf<safetensors::test::OwnHalf> {
  static constexpr Dtype dtype = Dtype::F16;
  static constexpr bool accepts(Dtype given) { return given == Dtype::F16; }
};

namespace safetensors::test {
namespace {

TEST(ElementOf, AcceptsDtypesOfNumbers) {
  EXPECT_EQ(accepted<float>(), "F32");
  EXPECT_EQ(accepted<double>(), "F64");
  EXPECT_EQ(accepted<std::int8_t>(), "I8");
  EXPECT_EQ(accepted<short>(), "I16");
  EXPECT_EQ(accepted<int>(), "I32");
  EXPECT_EQ(accepted<long long>(), "I64");
  EXPECT_EQ(accepted<long>(), sizeof(long) == 8 ? "I64" : "I32");
  EXPECT_EQ(accepted<unsigned>(), "U32");
  EXPECT_EQ(accepted<unsigned long long>(), "U64");
  EXPECT_EQ(accepted<std::complex<float>>(), "C64");
  EXPECT_EQ(accepted<LikeComplex>(), "C64");
}

TEST(ElementOf, AcceptsBitsOfTypesThatCppLacks) {
  EXPECT_EQ(accepted<std::uint8_t>(), "BOOL U8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ");
  EXPECT_EQ(accepted<std::uint16_t>(), "U16 F16 BF16");
  EXPECT_EQ(accepted<std::byte>(), "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ");
  EXPECT_EQ(accepted<char>(), "U8 I8");
  EXPECT_EQ(accepted<bool>(), "BOOL");
}

TEST(ElementOf, KnowsDtypeToSave) {
  EXPECT_EQ(detail::dtype_of<float>(), Dtype::F32);
  EXPECT_EQ(detail::dtype_of<std::byte>(), Dtype::U8);
  EXPECT_EQ(detail::dtype_of<bool>(), Dtype::BOOL);
  EXPECT_EQ(detail::dtype_of<std::uint16_t>(), Dtype::U16);
  EXPECT_EQ(detail::dtype_of<long long>(), Dtype::I64);
  EXPECT_EQ(detail::dtype_of<OwnHalf>(), Dtype::F16);
  EXPECT_EQ(detail::kOwnDtype<char>, std::nullopt);
}

#if defined(SAFETENSORS_HAS_FLOAT16)
TEST(ElementOf, AcceptsFloat16) {
  EXPECT_EQ(accepted<_Float16>(), "F16");
  EXPECT_EQ(detail::dtype_of<_Float16>(), Dtype::F16);
}
#endif

TEST(ToFloat, EqualsReferenceForEveryCode) {
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16, Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::F8_E8M0, Dtype::F8_E4M3FNUZ,
                            Dtype::F8_E5M2FNUZ}) {
    const unsigned codes = 1U << bits(dtype);
    for (unsigned code = 0; code < codes; ++code) {
      const float value = to_float(dtype, static_cast<std::uint16_t>(code));
      const double expected = decode(dtype, code);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << to_string(dtype) << " " << code;
      } else {
        ASSERT_EQ(static_cast<double>(value), expected) << to_string(dtype) << " " << code;
        ASSERT_EQ(std::signbit(value), std::signbit(expected)) << to_string(dtype) << " " << code;
      }
    }
  }
}

TEST(ToFloat, KnowsFloatsOfFourAndSixBits) {
  const float f4[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (std::uint16_t code = 0; code < 8; ++code) {
    EXPECT_EQ(to_float(Dtype::F4, code), f4[code]);
    EXPECT_EQ(to_float(Dtype::F4, static_cast<std::uint16_t>(code | 8)), -f4[code]);
  }
  EXPECT_EQ(to_float(Dtype::F6_E2M3, 0x1F), 7.5F);
  EXPECT_EQ(to_float(Dtype::F6_E2M3, 0x01), 0.125F);
  EXPECT_EQ(to_float(Dtype::F6_E3M2, 0x1F), 28);
  EXPECT_EQ(to_float(Dtype::F6_E3M2, 0x21), -0.0625F);
}

TEST(ToFloat, IgnoresHigherBits) {
  EXPECT_EQ(to_float(Dtype::F4, 0xFFF2), 1);
  EXPECT_EQ(to_float(Dtype::F8_E4M3, 0xFF38), 1);
}

TEST(ToFloat, IsNanForOtherDtypes) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::C64, Dtype::I8, Dtype::BOOL, Dtype::U16})
    EXPECT_TRUE(std::isnan(to_float(dtype, 0))) << to_string(dtype);
  EXPECT_TRUE(std::isnan(to_float(static_cast<Dtype>(0), 0)));
  EXPECT_TRUE(std::isnan(to_float(static_cast<Dtype>(99), 0)));
}

}  // namespace
}  // namespace safetensors::test
