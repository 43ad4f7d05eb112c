// Typed views: indices, rows, the memory that they keep, and the errors of dtype, shape and alignment.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/typed_view.h>

#include <numeric>
#include <type_traits>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

class TypedViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kBigEndian) GTEST_SKIP() << "typed views refuse elements of several bytes on big-endian machines";
    put(directory_ / "two.safetensors", two_tensors());
  }
  [[nodiscard]] File open(Access access = Access::map) const {
    return File::open(directory_ / "two.safetensors", {.access = access}).value();
  }
  TemporaryDirectory directory_;
};

using TypedViewDeathTest = TypedViewTest;

TEST_F(TypedViewTest, GivesElementsByIndex) {
  const auto a = open().get<float>("a", {2, 3}).value();
  static_assert(std::is_same_v<decltype(a(0, 0)), float>);  // no reference that could dangle
  for (int row = 0; row < 2; ++row) {
    for (unsigned column = 0; column < 3; ++column)
      EXPECT_EQ(a(row, column), static_cast<float>(row) * 3 + static_cast<float>(column));
  }
  EXPECT_EQ(a.size(), 6U);
  EXPECT_EQ(a.shape(), (Shape{2, 3}));
  EXPECT_EQ(std::accumulate(a.begin(), a.end(), 0.0F), 15.0F);
  EXPECT_EQ(a.row(1)[2], 5.0F);
  EXPECT_EQ(a.row(1).size(), 3U);
  EXPECT_EQ(a.span().size(), 6U);
}

TEST_F(TypedViewTest, KeepsMapAlive) {
  TypedView<const float> kept;
  EXPECT_TRUE(kept.empty());
  {
    const File file = open();
    kept = file.get<float>("a").value();
    const Array view = file["a"].view().value();
    EXPECT_EQ(kept.data(), static_cast<const void*>(view.bytes().data())) << "a copy";
  }
  ASSERT_TRUE(std::filesystem::remove(directory_ / "two.safetensors"));
  EXPECT_EQ(kept(1, 2), 5.0F);
}

TEST_F(TypedViewTest, ServesEveryAccess) {
  for (const Access access : {Access::map, Access::read}) EXPECT_EQ(open(access).get<float>("a").value()(1, 0), 3.0F);
  const std::string bytes = two_tensors();
  const File file = File::from_memory(std::as_bytes(std::span(bytes)), nullptr).value();
  EXPECT_EQ(file.get<std::uint16_t>("b", {2}).value()(1), 2);
}

TEST_F(TypedViewTest, IsWritableOverOwnedMemory) {
  Array array = open()["a"].read().value();
  const TypedView<float> view(array.as_mutable<float>().value().data(), {2, 3}, array.owner());
  view(1, 1) = 50;
  view.row(0)[0] = 60;
  EXPECT_EQ(array.get<const float>().value()(1, 1), 50.0F);
  EXPECT_EQ(array.as<float>().value()[0], 60.0F);
  EXPECT_EQ(open().get<float>("a").value()(1, 1), 4.0F) << "the file changed";
}

TEST_F(TypedViewTest, HasOneErrorForDtypeAndShape) {
  const File file = open();
  Error error = error_of(file.get<double>("a", {2, 3}));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "tensor `a`: expected F64 [2, 3], found F32 [2, 3]");
  EXPECT_EQ(error.path, directory_ / "two.safetensors");
  error = error_of(file.get<float>("a", {3, 2}));
  EXPECT_EQ(error.code, Errc::shape_mismatch);
  EXPECT_EQ(error.message, "tensor `a`: expected F32 [3, 2], found F32 [2, 3]");
  EXPECT_EQ(error_of(file.get<float>("a", {6})).code, Errc::shape_mismatch);
  EXPECT_EQ(error_of(file.get<float>("a", {2, 3, 1})).code, Errc::shape_mismatch);
  EXPECT_EQ(error_of(file.get<float>("a", {})).code, Errc::shape_mismatch);
  EXPECT_EQ(error_of(file.get<float>("c", {6})).code, Errc::not_found);
  error = error_of(file.get<char>("a"));
  EXPECT_EQ(error.message, "tensor `a`: expected elements of 1 byte, found F32");
}

TEST_F(TypedViewTest, CopiesMisalignedTensor) {
  std::string header =
      R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"y":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  put(directory_ / "odd.safetensors", file_bytes(header, std::string("\7\0\0\xc0\x3f", 5)));
  const File file = File::open(directory_ / "odd.safetensors", {.access = Access::map}).value();
  const Array view = file["y"].view().value();
  EXPECT_EQ(error_of(view.as<float>()).code, Errc::misaligned_memory);
  EXPECT_EQ(data_of(view), std::string("\0\0\xc0\x3f", 4));
  EXPECT_EQ(elements<float>(file["y"].read()), std::vector<float>{1.5F});
  EXPECT_EQ(file.get<float>("y", {1}).value()(0), 1.5F);
}

TEST_F(TypedViewTest, RefusesElementsSmallerThanBytes) {
  put(directory_ / "f4.safetensors", one_tensor("F4", "[4,2]", 4));
  const File file = File::open(directory_ / "f4.safetensors").value();
  EXPECT_EQ(error_of(file.get<std::uint8_t>("t")).code, Errc::dtype_mismatch);
  EXPECT_EQ(error_of(file.get<std::byte>("t", {4, 2})).code, Errc::dtype_mismatch);
}

TEST_F(TypedViewTest, ChecksBytesOfBool) {
  const auto flags = [&](std::string_view bytes) {
    put(directory_ / "flags.safetensors",
        file_bytes(R"({"f":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", bytes));
    return File::open(directory_ / "flags.safetensors").value();
  };
  const auto good = flags(std::string_view("\1\0\1", 3)).get<bool>("f", {3}).value();
  EXPECT_TRUE(good(0));
  EXPECT_FALSE(good(1));
  const File bad = flags(std::string_view("\1\0\2", 3));
  const Error error = error_of(bad.get<bool>("f"));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message,
            "tensor `f`: element 2 is 2, expected 0 or 1 in a BOOL that is used as bool (use std::uint8_t)");
  EXPECT_EQ(bad.get<std::uint8_t>("f").value()(2), 2);
}

TEST_F(TypedViewTest, HandlesScalarsAndEmptyTensors) {
  put(directory_ / "edge.safetensors", file_bytes(R"({"e":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},)"
                                                  R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                                                  std::string("\0\0\x80\x3f", 4)));
  const File file = File::open(directory_ / "edge.safetensors").value();
  EXPECT_EQ(file.get<float>("s", {}).value()(), 1.0F);
  const auto empty = file.get<float>("e", {0, 3}).value();
  EXPECT_TRUE(empty.empty());
  EXPECT_EQ(empty.begin(), empty.end());
}

TEST_F(TypedViewTest, RefusesArraysWithoutBytes) {
  const Array on_device(Dtype::F32, {2, 3}, {}, nullptr, MemoryKind::borrowed);
  const Error error = error_of(on_device.get<float>());
  EXPECT_EQ(error.code, Errc::buffer_size);
  EXPECT_EQ(error.message, "the array has 0 bytes, expected 24 for its shape");
  EXPECT_EQ(error_of(on_device.slice("1")).code, Errc::buffer_size);
}

// A copy of many dimensions allocates.
static_assert(!std::is_nothrow_copy_assignable_v<Array> && std::is_nothrow_move_assignable_v<Array>);
static_assert(!std::is_nothrow_copy_assignable_v<TypedView<float>> &&
              std::is_nothrow_move_assignable_v<TypedView<float>>);

TEST_F(TypedViewTest, IsEmptyAfterMove) {
  Array array = open()["a"].read().value();
  TypedView<const float> view = array.get<float>().value();
  const TypedView<const float> moved = std::move(view);
  EXPECT_EQ(moved(1, 2), 5.0F);
  EXPECT_TRUE(view.empty());        // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(view.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  const Array last = std::move(array);
  EXPECT_EQ(array.shape(), Shape{0});  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(error_of(array.get<float>({1})).code == Errc::shape_mismatch);
  EXPECT_EQ(array.get<float>().value().size(), 0U);
  EXPECT_EQ(last.numel(), 6U);
}

#if !defined(NDEBUG)
TEST_F(TypedViewDeathTest, AssertsBounds) {
  const auto a = open().get<float>("a").value();
  EXPECT_DEATH((void)a(2, 0), "out of bounds");
  EXPECT_DEATH((void)a(0, -1), "out of bounds");
  EXPECT_DEATH((void)a(0), "one index per dimension");
  EXPECT_DEATH((void)a.row(2), "out of bounds");
  EXPECT_DEATH((void)a.span().last(7), "out of bounds");
}
#endif

}  // namespace
}  // namespace safetensors::test
