#include <gtest/gtest.h>
#include <safetensors/array.h>

#include <array>
#include <cstring>
#include <memory>

#include "support/file_support.h"

namespace {

// Three exponent-heavy bits of nothing: an element type that only this test knows.
struct OwnHalf {
  std::uint16_t bits;
};
struct WrongSize {
  std::uint32_t bits;
};
struct PackedPair {
  std::uint8_t bits;
};

}  // namespace

template <>
struct safetensors::ElementOf<OwnHalf> {
  static constexpr bool accepts(Dtype dtype) { return dtype == Dtype::F16; }
};
template <>
struct safetensors::ElementOf<WrongSize> {
  static constexpr bool accepts(Dtype dtype) { return dtype == Dtype::F16; }
};
template <>
struct safetensors::ElementOf<PackedPair> {
  static constexpr bool accepts(Dtype dtype) { return dtype == Dtype::F4; }
};

namespace safetensors {
namespace {

using test::elements;
using test::error_of;
using test::kBigEndian;
using test::succeeds;

class ArrayTest : public ::testing::Test {
 protected:
  Array make(Dtype dtype, const Shape& shape, std::size_t size, MemoryKind kind, std::size_t shift = 0) {
    return Array(dtype, shape, std::span(memory_).subspan(shift, size), nullptr, kind);
  }
  alignas(64) std::array<std::byte, 64> memory_{};
};

TEST_F(ArrayTest, IsEmptyByDefault) {
  const Array array;
  EXPECT_EQ(array.nbytes(), 0U);
  EXPECT_EQ(array.dtype(), Dtype::U8);
  EXPECT_EQ(array.shape(), Shape{0});
  EXPECT_TRUE(array.bytes().empty());
  EXPECT_TRUE(array.as<std::uint8_t>().value().empty());
}

TEST_F(ArrayTest, GivesElementsOfOwnDtypeOnly) {
  if (kBigEndian) GTEST_SKIP() << "as<T>() refuses elements of several bytes on big-endian machines";
  const float values[2] = {1.5F, -2};
  std::memcpy(memory_.data(), values, 8);
  const Array array = make(Dtype::F32, {2}, 8, MemoryKind::borrowed);
  const auto floats = array.as<float>();
  ASSERT_TRUE(succeeds(floats));
  ASSERT_EQ(floats->size(), 2U);
  EXPECT_EQ((*floats)[0], 1.5F);
  EXPECT_EQ((*floats)[1], -2);
  const Error error = error_of(array.as<double>());
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "expected F64, found F32");
  EXPECT_EQ(error_of(array.as<std::uint32_t>()).code, Errc::dtype_mismatch);
}

TEST_F(ArrayTest, RefusesElementsInAnotherByteOrder) {
  if (!kBigEndian) GTEST_SKIP() << "needs a big-endian machine";
  std::memcpy(memory_.data(), "\0\0\xc0\x3f", 4);
  Array array = make(Dtype::F32, {1}, 4, MemoryKind::owned);
  const Error error = error_of(array.as<float>());
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(
      error.message,
      "cannot use an array of F32 in place: its bytes are little-endian, this machine is big-endian (swap bytes())");
  EXPECT_EQ(error_of(array.as_mutable<float>()).code, Errc::unsupported);
  EXPECT_EQ(elements<float>(array)[0], 1.5F);
  const Array bytes = make(Dtype::U8, {1}, 1, MemoryKind::owned);
  EXPECT_TRUE(succeeds(bytes.as<std::uint8_t>()));
}

TEST_F(ArrayTest, GivesRawBitsOfFloatsWithoutCppType) {
  const Array half = make(Dtype::BF16, {4}, 8, MemoryKind::borrowed);
  if (!kBigEndian) {
    EXPECT_EQ(half.as<std::uint16_t>().value().size(), 4U);
  }
  const Array tiny = make(Dtype::F8_E4M3, {4}, 4, MemoryKind::borrowed);
  EXPECT_EQ(tiny.as<std::uint8_t>().value().size(), 4U);
  const Array truth = make(Dtype::BOOL, {4}, 4, MemoryKind::borrowed);
  EXPECT_EQ(truth.as<std::uint8_t>().value().size(), 4U);
}

TEST_F(ArrayTest, AcceptsElementTypesOfCaller) {
  const Array half = make(Dtype::F16, {4}, 8, MemoryKind::borrowed);
  if (!kBigEndian) {
    EXPECT_EQ(half.as<OwnHalf>().value().size(), 4U);
  }
  EXPECT_EQ(error_of(half.as<WrongSize>()).code, Errc::dtype_mismatch);
  const Array packed = make(Dtype::F4, {8}, 4, MemoryKind::borrowed);
  EXPECT_EQ(packed.as<PackedPair>().value().size(), 4U);
}

TEST_F(ArrayTest, RefusesMisalignedElements) {
  Array array = make(Dtype::F32, {2}, 8, MemoryKind::owned, 3);
  const Error error = error_of(array.as<float>());
  EXPECT_EQ(error.code, Errc::misaligned_memory);
  EXPECT_EQ(error.message,
            "the file puts these bytes 3 past a multiple of 4, where F32 cannot be read in place: use "
            "Tensor::read(), or bytes()");
  EXPECT_EQ(error_of(array.as_mutable<float>()).code, Errc::misaligned_memory);
  EXPECT_EQ(array.bytes().data(), memory_.data() + 3);
}

TEST_F(ArrayTest, IsWritableWhenOwnedOrPrivate) {
  for (const MemoryKind kind : {MemoryKind::owned, MemoryKind::copy_on_write_map}) {
    Array array = make(Dtype::I32, {2}, 8, kind);
    EXPECT_TRUE(array.writable());
    ASSERT_TRUE(succeeds(array.mutable_bytes()));
    if (kBigEndian) continue;
    array.as_mutable<std::int32_t>().value()[1] = 7;
    EXPECT_EQ(array.as<std::int32_t>().value()[1], 7);
  }
  for (const MemoryKind kind : {MemoryKind::shared_map, MemoryKind::borrowed}) {
    Array array = make(Dtype::I32, {2}, 8, kind);
    EXPECT_FALSE(array.writable());
    const Error error = error_of(array.mutable_bytes());
    EXPECT_EQ(error.code, Errc::not_writable);
    EXPECT_EQ(error.message, "the array is read-only: use Tensor::read() or view(Map::copy_on_write) to write to it");
    EXPECT_EQ(error_of(array.as_mutable<std::int32_t>()).code, Errc::not_writable);
  }
}

TEST_F(ArrayTest, HasNoBytesAfterMove) {
  Array first = make(Dtype::I32, {2}, 8, MemoryKind::owned);
  Array second = std::move(first);
  EXPECT_EQ(second.nbytes(), 8U);
  EXPECT_TRUE(first.bytes().empty());  // NOLINT(bugprone-use-after-move)
  first = std::move(second);
  EXPECT_EQ(first.bytes().data(), memory_.data());
  EXPECT_EQ(first.shape(), Shape{2});
  EXPECT_EQ(second.nbytes(), 0U);  // NOLINT(bugprone-use-after-move)
  Array& same = first;
  first = std::move(same);
  EXPECT_EQ(first.nbytes(), 8U);
}

TEST_F(ArrayTest, SharesMemoryAndKeepsItAlive) {
  auto owner = std::make_shared<std::array<std::byte, 4>>();
  const std::weak_ptr<const void> watch = owner;
  std::shared_ptr<const void> kept;
  {
    Array first(Dtype::U8, {4}, *owner, owner, MemoryKind::owned);
    owner.reset();
    const Array second = first;
    first.mutable_bytes().value()[2] = std::byte{9};
    EXPECT_EQ(second.bytes()[2], std::byte{9});
    EXPECT_EQ(second.bytes().data(), first.bytes().data());
    first = Array();
    EXPECT_FALSE(watch.expired());
    kept = second.owner();
  }
  EXPECT_FALSE(watch.expired());
  kept.reset();
  EXPECT_TRUE(watch.expired());
}

TEST_F(ArrayTest, ReleasesPagesOfSharedMapOnly) {
  const test::TemporaryDirectory directory;
  constexpr std::size_t kBytes = std::size_t{3} << 20;
  test::put(directory / "t", test::one_tensor("U8", "[" + std::to_string(kBytes) + "]", kBytes));
  const Tensor tensor = test::tensor(File::open(directory / "t", {.access = Access::map}).value(), "t");
  const Array map = tensor.view().value();
  const std::string before = test::data_of(map);
  ASSERT_TRUE(succeeds(map.release()));
  EXPECT_EQ(test::data_of(map), before);
  EXPECT_EQ(error_of(tensor.view({}, Map::copy_on_write).value().release()).message,
            "cannot release pages: the map is private, and changes to it would be lost");
  const Error error = error_of(tensor.read().value().release());
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(error.message, "cannot release pages: the array is not file-mapped");
}

}  // namespace
}  // namespace safetensors
