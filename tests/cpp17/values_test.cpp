// Values of the C++17 interface: Error, Status, Result, View, dimensions, dtypes.
#include <gtest/gtest.h>
#include <safetensors/safetensors.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace st = safetensors17;

static_assert(__cplusplus == 201703L, "this file is compiled as C++17");
static_assert(!std::is_copy_constructible_v<st::File> && std::is_nothrow_move_constructible_v<st::File>);
static_assert(!std::is_copy_constructible_v<st::Array> && std::is_nothrow_move_assignable_v<st::Array>);
static_assert(!std::is_copy_constructible_v<st::Result<int>> && std::is_nothrow_move_constructible_v<st::Result<int>>);
static_assert(!std::is_convertible_v<st::Status, bool> && std::is_constructible_v<bool, st::Status>);

TEST(Cpp17Error, HasCodeNameAndMessage) {
  const st::Error none;
  EXPECT_EQ(none.code(), SAFETENSORS_OK);
  EXPECT_STREQ(none.name(), "ok");
  EXPECT_STREQ(none.message(), "");
  EXPECT_EQ(none.offset(), SAFETENSORS_NO_OFFSET);
  st::Error error(SAFETENSORS_ERROR_INVALID_OFFSET, "a hole");
  error.c().offset = 17;
  std::strcpy(error.c().path, "x\n.safetensors");
  EXPECT_EQ(error.rule(), 6);
  EXPECT_FALSE(error.is_system_error());
  EXPECT_EQ(error.os_error(), 0);
  EXPECT_EQ(error.to_string(), "x\\u{a}.safetensors: a hole (byte 17)");
  EXPECT_TRUE(st::Error(SAFETENSORS_ERROR_OPEN_FAILED, "").is_system_error());
}

TEST(Cpp17Error, LongTextsFit) {
  const st::Error cut(SAFETENSORS_ERROR_READ_FAILED, std::string(600, 'x'));
  EXPECT_EQ(std::string(cut.message()), std::string(511, 'x'));
  st::Error longest(SAFETENSORS_ERROR_READ_FAILED, std::string(511, 'x'));
  std::memset(longest.c().path, '\1', sizeof longest.c().path - 1);
  longest.c().path[sizeof longest.c().path - 1] = '\0';
  longest.c().offset = SAFETENSORS_NO_OFFSET - 1;
  const std::string text = longest.to_string();
  EXPECT_EQ(text.substr(text.size() - 8), "9551614)") << text.size();
}

TEST(Cpp17Status, IsTrueAfterSuccess) {
  EXPECT_TRUE(st::Status().ok());
  const st::Status bad = st::Error(SAFETENSORS_ERROR_CANCELLED, "stop");
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), SAFETENSORS_ERROR_CANCELLED);
  EXPECT_EQ(st::Status(bad).error().code(), SAFETENSORS_ERROR_CANCELLED);
}

TEST(Cpp17Result, MovesValuesAndErrors) {
  st::Result<std::unique_ptr<int>> five(std::make_unique<int>(5));
  ASSERT_TRUE(five);
  EXPECT_EQ(**five, 5);
  st::Result<std::unique_ptr<int>> moved(std::move(five));
  EXPECT_EQ(*moved.value(), 5);
  st::Result<std::unique_ptr<int>> failed(st::Error(SAFETENSORS_ERROR_NOT_FOUND, "gone"));
  EXPECT_FALSE(failed.ok());
  EXPECT_STREQ(failed.error().message(), "gone");
  EXPECT_EQ(*std::move(failed).value_or(std::make_unique<int>(7)), 7);
  failed = std::move(moved);
  EXPECT_EQ(*std::move(failed).value_or(nullptr), 5);
  st::Result<std::unique_ptr<int>> other(st::Error(SAFETENSORS_ERROR_CANCELLED, "stop"));
  other = st::Result<std::unique_ptr<int>>(st::Error(SAFETENSORS_ERROR_NOT_FOUND, "gone"));
  EXPECT_EQ(other.error().code(), SAFETENSORS_ERROR_NOT_FOUND);
  failed = std::move(other);
  EXPECT_FALSE(failed);
  const std::unique_ptr<int> taken = *st::Result<std::unique_ptr<int>>(std::make_unique<int>(3));
  EXPECT_EQ(*taken, 3);
}

TEST(Cpp17Result, IsMadeFromLocalVariable) {
  const auto make = []() -> st::Result<std::unique_ptr<int>> {
    auto five = std::make_unique<int>(5);
    return five;
  };
  EXPECT_EQ(*make().value(), 5);
  const std::string text = "copied";
  EXPECT_EQ(st::Result<std::string>(text).value(), text);
}

TEST(Cpp17Result, DestroysItsValueOnce) {
  auto counted = std::make_shared<int>(1);
  {
    st::Result<std::shared_ptr<int>> first(counted);
    st::Result<std::shared_ptr<int>> second(std::move(first));
    second = st::Result<std::shared_ptr<int>>(st::Error(SAFETENSORS_ERROR_NOT_FOUND, ""));
    EXPECT_EQ(counted.use_count(), 1);
    second = st::Result<std::shared_ptr<int>>(counted);
    EXPECT_EQ(counted.use_count(), 2);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

#if GTEST_HAS_DEATH_TEST
TEST(Cpp17ResultDeathTest, ValueWithoutValueEndsProgram) {
  st::Result<int> failed(st::Error(SAFETENSORS_ERROR_NOT_FOUND, "no tensor `w`"));
  std::strcpy(const_cast<st::Error&>(failed.error()).c().path, "m.safetensors");
  EXPECT_DEATH((void)failed.value(), "safetensors: value of a Result with an error: m.safetensors: no tensor `w`");
  EXPECT_DEATH((void)*failed, "no tensor `w`");
  EXPECT_DEATH((void)st::Result<int>(1).error(), "error.. of a Result with a value: there is no error");
}
#endif

TEST(Cpp17View, SeesArraysAndContainers) {
  const int numbers[] = {1, 2, 3};
  const std::vector<int> more = {4, 5};
  const st::View<const int> array = numbers;
  const st::View<const int> list = more;
  EXPECT_EQ(array.size() + list.size(), 5u);
  EXPECT_EQ(array[2] + list[1], 8);
  int sum = 0;
  for (const int number : array) sum += number;
  EXPECT_EQ(sum, 6);
  EXPECT_TRUE(st::View<int>().empty());
  static_assert(!std::is_constructible_v<st::View<const int>, std::vector<int>>, "a temporary would dangle");
  struct Small {
    int number;
  };
  struct Large : Small {
    int more;
  };
  static_assert(std::is_constructible_v<st::View<const Small>, std::vector<Small>&>);
  static_assert(!std::is_constructible_v<st::View<Small>, std::vector<Large>&>, "the elements have another size");
}

TEST(Cpp17Dims, ConvertOrFail) {
  const std::uint64_t dims[] = {2, 300};
  const auto pair = st::dims_as<std::size_t, 2>(dims);
  ASSERT_TRUE(pair);
  EXPECT_EQ((*pair)[1], 300u);
  const auto three = st::dims_as<int, 3>(dims);
  EXPECT_EQ(three.error().code(), SAFETENSORS_ERROR_SHAPE_MISMATCH);
  EXPECT_STREQ(three.error().message(), "the tensor has 2 dimensions, expected 3");
  std::uint8_t small[2] = {9, 9};
  const st::Status status = st::dims_as(dims, small, 2);
  EXPECT_EQ(status.error().code(), SAFETENSORS_ERROR_SIZE_OVERFLOW);
  EXPECT_STREQ(status.error().message(), "dimension 1 is 300, expected at most 255");
  EXPECT_EQ(small[0], 9);
  EXPECT_TRUE((st::dims_as<std::int64_t, 0>({}).ok()));
  const std::uint64_t huge[] = {~std::uint64_t{0}};
  EXPECT_FALSE((st::dims_as<std::int64_t, 1>(huge).ok()));
  EXPECT_EQ((st::dims_as<std::uint64_t, 1>(huge).value()[0]), ~std::uint64_t{0});
}

TEST(Cpp17Dtype, HasNamesAndElements) {
  EXPECT_EQ(st::to_string(st::Dtype::BF16), "BF16");
  EXPECT_EQ(st::to_string(st::Dtype::UNKNOWN), "unknown");
  EXPECT_EQ(st::to_string(static_cast<st::Dtype>(99)), "unknown");
  static_assert(st::ElementOf<float>::dtype == st::Dtype::F32 && st::ElementOf<long long>::dtype == st::Dtype::I64);
  static_assert(st::ElementOf<std::uint16_t>::accepts(st::Dtype::BF16));
  static_assert(!st::ElementOf<std::int16_t>::accepts(st::Dtype::BF16));
  static_assert(st::ElementOf<std::uint8_t>::accepts(st::Dtype::F8_E8M0));
  static_assert(st::ElementOf<std::byte>::accepts(st::Dtype::I8) &&
                !st::ElementOf<std::uint8_t>::accepts(st::Dtype::I8));
  static_assert(!st::ElementOf<std::uint8_t>::accepts(st::Dtype::F4) && !st::ElementOf<float>::accepts(st::Dtype::I32));
}

TEST(Cpp17Printable, EscapesText) {
  EXPECT_EQ(st::printable("a\x1b[2J"), "a\\u{1b}[2J");
  EXPECT_EQ(st::printable(""), "");
}
