// Casts between integers, against std::in_range: every pair, with all values at and beside the bounds of every dtype.
#include "format/dtype/cast_integers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "format/dtype/cast.h"

namespace safetensors::test {
namespace {

template <class T>
constexpr Dtype dtype_of_type() {
  constexpr bool is_signed = std::is_signed_v<T>;
  if (sizeof(T) == 1) return is_signed ? Dtype::I8 : Dtype::U8;
  if (sizeof(T) == 2) return is_signed ? Dtype::I16 : Dtype::U16;
  if (sizeof(T) == 4) return is_signed ? Dtype::I32 : Dtype::U32;
  return is_signed ? Dtype::I64 : Dtype::U64;
}

// Little-endian on every machine.
template <class T>
std::vector<std::byte> pack_integers(const std::vector<T>& values) {
  std::vector<std::byte> bytes;
  for (const T value : values) {
    const auto number = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i)));
  }
  return bytes;
}

// The bounds of all eight dtypes, their neighbours, and some values between, as far as From has them.
template <class From>
std::vector<From> interesting_values() {
  std::vector<From> values;
  const auto add = [&](auto value) {
    if (std::in_range<From>(value)) values.push_back(static_cast<From>(value));
  };
  for (const unsigned width : {7U, 8U, 15U, 16U, 31U, 32U, 63U, 64U}) {
    const std::uint64_t above = width == 64 ? 0 : std::uint64_t{1} << width;
    for (const std::uint64_t value : {above - 2, above - 1, above, above + 1}) {
      add(value);
      add(static_cast<std::int64_t>(0 - value));
      add(static_cast<std::int64_t>(value));
    }
  }
  for (const int value : {-2, -1, 0, 1, 2, 100, -100}) add(value);
  return values;
}

template <class From, class To>
void expect_pair() {
  constexpr Dtype from = dtype_of_type<From>();
  constexpr Dtype to = dtype_of_type<To>();
  SCOPED_TRACE(std::string(to_string(from)) + " to " + std::string(to_string(to)));
  ASSERT_TRUE(format::castable(from, to));
  std::vector<From> fitting;
  for (const From value : interesting_values<From>()) {
    std::vector<std::byte> out(sizeof(To));
    const std::size_t done = format::try_cast(from, pack_integers<From>({value}).data(), to, out.data(), 1);
    ASSERT_EQ(done, std::in_range<To>(value) ? 1U : 0U) << +value;
    if (done == 1) fitting.push_back(value);
    if (done == 1) {
      EXPECT_EQ(out, pack_integers<To>({static_cast<To>(value)})) << +value;
    }
  }
  // The same values many times: whole blocks, and at addresses without alignment.
  std::vector<From> many;
  std::vector<To> expected;
  for (std::size_t i = 0; i < 1000; ++i) {
    many.push_back(fitting[i * 7 % fitting.size()]);
    expected.push_back(static_cast<To>(many.back()));
  }
  std::vector<std::byte> in = pack_integers(many);
  in.insert(in.begin(), std::byte{});
  std::vector<std::byte> out(1000 * sizeof(To) + 3);
  ASSERT_EQ(format::try_cast(from, in.data() + 1, to, out.data() + 3, 1000), 1000U);
  EXPECT_EQ(std::vector<std::byte>(out.begin() + 3, out.end()), pack_integers(expected));
}

template <class From>
void expect_from() {
  expect_pair<From, std::int8_t>();
  expect_pair<From, std::int16_t>();
  expect_pair<From, std::int32_t>();
  expect_pair<From, std::int64_t>();
  expect_pair<From, std::uint8_t>();
  expect_pair<From, std::uint16_t>();
  expect_pair<From, std::uint32_t>();
  expect_pair<From, std::uint64_t>();
}

TEST(CastIntegers, CheckEveryPairAtAllBounds) {
  expect_from<std::int8_t>();
  expect_from<std::int16_t>();
  expect_from<std::int32_t>();
  expect_from<std::int64_t>();
  expect_from<std::uint8_t>();
  expect_from<std::uint16_t>();
  expect_from<std::uint32_t>();
  expect_from<std::uint64_t>();
}

TEST(CastIntegers, CheckAllCodesOf16Bits) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const std::byte in[2] = {static_cast<std::byte>(code), static_cast<std::byte>(code >> 8)};
    std::byte out[1];
    const auto value = static_cast<std::int16_t>(code);
    ASSERT_EQ(format::try_cast(Dtype::I16, in, Dtype::I8, out, 1), value >= -128 && value <= 127 ? 1U : 0U) << value;
    ASSERT_EQ(format::try_cast(Dtype::I16, in, Dtype::U8, out, 1), value >= 0 && value <= 255 ? 1U : 0U) << value;
    ASSERT_EQ(format::try_cast(Dtype::U16, in, Dtype::I8, out, 1), code <= 127 ? 1U : 0U) << code;
    ASSERT_EQ(format::try_cast(Dtype::U16, in, Dtype::U8, out, 1), code <= 255 ? 1U : 0U) << code;
  }
}

TEST(CastIntegers, FindFirstValueThatDoesNotFit) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{128}, std::size_t{129}, std::size_t{1000}}) {
    for (std::size_t first = 0; first < count; ++first) {
      std::vector<std::int64_t> values(count, 7);
      values[first] = 300;
      values[(first + count) / 2] = first % 2 == 0 ? -1 : 300;
      values[first] = 300;
      std::vector<std::byte> out(count);
      const std::vector<std::byte> in = pack_integers(values);
      ASSERT_EQ(format::try_cast(Dtype::I64, in.data(), Dtype::U8, out.data(), count), first) << count;
    }
  }
}

TEST(CastIntegers, TryCastAlsoCastsFloatsAndCopies) {
  const std::byte one[] = {std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0x3F}};
  std::byte out[4];
  EXPECT_EQ(format::try_cast(Dtype::F32, one, Dtype::BF16, out, 1), 1U);
  EXPECT_EQ(out[1], std::byte{0x3F});
  EXPECT_EQ(format::try_cast(Dtype::I32, one, Dtype::I32, out, 1), 1U);
  EXPECT_EQ(std::memcmp(out, one, 4), 0);
}

TEST(CastIntegers, ErrorNamesPositionValueAndRange) {
  const auto message = [](Dtype from, std::uint64_t code, Dtype to, std::uint64_t index, const Shape& shape) {
    const Error error = format::out_of_range(from, pack_integers<std::uint64_t>({code}).data(), to, index, shape);
    EXPECT_EQ(error.code, Errc::value_out_of_range);
    return error.message;
  };
  EXPECT_EQ(message(Dtype::I64, 300, Dtype::I8, 17, {4, 5}),
            "cannot cast I64 to I8: element [3, 2] is 300, the range of I8 is -128 to 127");
  EXPECT_EQ(message(Dtype::I8, 0xFF, Dtype::U64, 0, {}),
            "cannot cast I8 to U64: element [] is -1, the range of U64 is 0 to 18446744073709551615");
  EXPECT_EQ(
      message(Dtype::I64, std::uint64_t{1} << 63, Dtype::I32, 6, {7}),
      "cannot cast I64 to I32: element [6] is -9223372036854775808, the range of I32 is -2147483648 to 2147483647");
  EXPECT_EQ(message(Dtype::U64, ~std::uint64_t{0}, Dtype::I64, 1, {2}),
            "cannot cast U64 to I64: element [1] is 18446744073709551615, the range of I64 is -9223372036854775808 to "
            "9223372036854775807");
  EXPECT_EQ(
      message(Dtype::U32, 65536, Dtype::U16, 1, Shape(std::vector<std::uint64_t>(100, 2))),
      "cannot cast U32 to U16: element [0, 0, 0, 0, 0, 0, 0, 0, ... 100 dimensions] is 65536, the range of U16 is "
      "0 to 65535");
}

}  // namespace
}  // namespace safetensors::test
