// save(): dtypes from element types, tensors of other files, and its errors.
#include <gtest/gtest.h>
#include <safetensors/save.h>

#include <algorithm>
#include <array>
#include <complex>
#include <filesystem>
#include <vector>

#include "io/atomic_file.h"
#include "support/checkpoint_support.h"
#include "support/file_support.h"

namespace safetensors::test {
namespace {

class Save : public ::testing::Test {
 protected:
  [[nodiscard]] File open(std::string_view name) const { return File::open(directory_ / name).value(); }
  TemporaryDirectory directory_;
  const std::vector<float> w_{0, 1, 2, 3, 4, 5};
};

TEST_F(Save, DeducesDtypes) {
  const std::array<std::int64_t, 2> b{7, 8};
  const std::uint8_t raw[] = {1, 2, 3};
  const bool flags[] = {true, false};
  const std::vector<std::complex<float>> z{{1, 2}};
  const std::filesystem::path path = directory_ / "out.safetensors";
  ASSERT_TRUE(succeeds(save(path,
                            {{"w", {2, 3}, w_},
                             {"b", {2}, b},
                             {"raw", {3}, raw},
                             {"flags", {2}, flags},
                             {"z", {}, z},
                             {"part", {2}, std::span(w_).subspan(4)}},
                            {{"format", "pt"}})));
  const File file = open("out.safetensors");
  const auto text = [&](std::string_view name) {
    const Tensor tensor = file[name];
    return std::string(to_string(tensor.dtype())) + to_string(tensor.shape());
  };
  EXPECT_EQ(text("w") + text("b") + text("raw") + text("flags") + text("z") + text("part"),
            "F32[2, 3]I64[2]U8[3]BOOL[2]C64[]F32[2]");
  EXPECT_EQ(file.metadata().find("format"), "pt");
  if (!kBigEndian) {
    EXPECT_EQ(file.get<float>("w", {2, 3}).value()(1, 2), 5.0F);
    EXPECT_EQ(file.get<float>("part").value()(1), 5.0F);
    EXPECT_EQ(file.get<bool>("flags").value()(0), true);
  }
}

// Names and elements that were temporaries live in the NamedTensor and in its copies.
TEST_F(Save, KeepsWhatIsMovedIntoIt) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < 40; ++i) {
    const auto value = static_cast<std::uint8_t>(i);
    const std::string name = "a name that is longer than a small string, " + std::to_string(i);
    if (i % 2 == 0)
      tensors.emplace_back(name, Shape{2}, std::vector<std::uint8_t>{value, value});
    else
      tensors.emplace_back(name, Shape{2}, std::array<std::uint8_t, 2>{value, value});
  }
  std::vector<NamedTensor> copies(tensors.begin(), tensors.end());
  tensors.clear();
  std::vector<NamedTensor> moved;
  for (NamedTensor& tensor : copies) moved.push_back(std::move(tensor));
  copies.clear();
  ASSERT_TRUE(succeeds(save(directory_ / "out", moved)));
  const File file = open("out");
  ASSERT_EQ(file.size(), 40U);
  for (int i = 0; i < 40; ++i) {
    const auto value = static_cast<std::uint8_t>(i);
    const Array array = file["a name that is longer than a small string, " + std::to_string(i)].read().value();
    EXPECT_EQ(array.bytes()[0], std::byte{value});
    EXPECT_EQ(array.bytes()[1], std::byte{value});
  }
}

TEST_F(Save, EqualsWriteFile) {
  const Shape shape{2, 3};
  const TensorData tensors[] = {{"w", Dtype::F32, shape, std::as_bytes(std::span(w_))}};
  ASSERT_TRUE(succeeds(save(directory_ / "a", tensors)));
  ASSERT_TRUE(succeeds(save(directory_ / "b", {{"w", {2, 3}, w_}})));
  EXPECT_EQ(contents(directory_ / "a"), contents(directory_ / "b"));
  ASSERT_TRUE(succeeds(save(directory_ / "empty", {})));
  EXPECT_EQ(open("empty").size(), 0U);
}

TEST_F(Save, TakesDtypesKnownAtRunTime) {
  const Shape shape{3, 2};
  const std::uint8_t bits[] = {1, 2, 3};
  const TensorData packed{"packed", Dtype::F4, shape, std::as_bytes(std::span(bits))};
  ASSERT_TRUE(succeeds(save(directory_ / "out", {packed, {"w", {6}, w_}})));
  const File out = open("out");
  const Array read = out["packed"].read().value();
  EXPECT_EQ(read.dtype(), Dtype::F4);
  EXPECT_EQ(read.shape(), shape);
  EXPECT_TRUE(std::ranges::equal(read.bytes(), packed.bytes));
  const TensorData short_of_bytes{"packed", Dtype::F4, shape, std::as_bytes(std::span(bits).first(2))};
  EXPECT_EQ(error_of(save(directory_ / "out", {short_of_bytes})).code, Errc::data_length);
}

TEST_F(Save, CopiesTensorsAndArrays) {
  put(directory_ / "two.safetensors", two_tensors());
  const File two = open("two.safetensors");
  ASSERT_TRUE(succeeds(save(directory_ / "mixed",
                            {two["b"], {"other", two["a"]}, {"row", two["a"].view("1").value()}, {"w", {6}, w_}})));
  const File mixed = open("mixed");
  EXPECT_EQ(mixed.size(), 4U);
  EXPECT_EQ(elements<std::uint16_t>(mixed["b"].read()), (std::vector<std::uint16_t>{1, 2}));
  EXPECT_EQ(elements<float>(mixed["other"].read()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements<float>(mixed["row"].read()), (std::vector<float>{3, 4, 5}));
}

TEST_F(Save, ReplacesFileThatItReads) {
  put(directory_ / "two.safetensors", two_tensors());
  const File two = open("two.safetensors");
  ASSERT_TRUE(succeeds(save(directory_ / "two.safetensors", {two["a"], {"b2", two["b"]}})));
  EXPECT_EQ(elements<float>(open("two.safetensors")["a"].read()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(open("two.safetensors").contains("b2"));
}

TEST_F(Save, RefusesWrongNumberOfElements) {
  put(directory_ / "two.safetensors", two_tensors());
  const Tensor b = open("two.safetensors")["b"];
  const std::string path = directory_ / "out";
  for (const Status& status : {save(path, {{"w", {2, 2}, w_}}), save(path, {b, {"w", {2, 2}, w_}})}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Errc::data_length);
    EXPECT_EQ(status.error().message, "tensor `w`: 24 bytes given, F32 [2, 2] needs 16");
    EXPECT_EQ(status.error().path, path);
  }
  EXPECT_EQ(error_of(save(path, {b, {"b", {6}, w_}})).code, Errc::duplicate_name);
  EXPECT_EQ(error_of(save(path, {b}, {{"k", "1"}, {"k", "2"}})).code, Errc::duplicate_name);
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"two.safetensors"});
}

// Small tensors are gathered in a buffer of 2 MiB. These need nine buffers.
TEST_F(Save, GathersManySmallTensors) {
  std::vector<std::uint8_t> values(20'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i % 251);
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < 900; ++i) tensors.emplace_back("t" + std::to_string(i), Shape{20'000}, values);
  for (const Durability durability : {Durability::full, Durability::none}) {
    ASSERT_TRUE(succeeds(save(directory_ / "out", tensors, {}, {.durability = durability})));
    const File file = open("out");
    for (const Tensor& tensor : file) EXPECT_TRUE(elements<std::uint8_t>(tensor.read()) == values) << tensor.name();
  }
}

// Direct writes gather chunks of the tensors. All other writes take one tensor after the other.
TEST_F(Save, CopiesLargeTensorOrLeavesOldFile) {
  const std::string path = directory_ / "large.safetensors";
  for (const Durability durability : {Durability::full, Durability::none}) {
    put(path, one_tensor("U8", "[5000000]", 5'000'000));
    const Tensor t = File::open(path, {.access = Access::read}).value()["t"];
    const NamedTensor first("a", {6}, w_);
    ASSERT_TRUE(succeeds(save(directory_ / "out", {t, first, {"z", t}}, {}, {.durability = durability})));
    EXPECT_EQ(test::swapped_if_big_endian(elements<float>(open("out")["a"].read())), w_);
    for (const char* name : {"t", "z"}) EXPECT_TRUE(read_text(open("out")[name]) == read_text(t));
    put(directory_ / "out", "old");
    std::filesystem::resize_file(path, 4'000'000);
    const Error error = error_of(save(directory_ / "out", {t, first}, {}, {.durability = durability}));
    EXPECT_EQ(error.code, Errc::file_truncated);
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(contents(directory_ / "out"), "old");
    EXPECT_EQ(directory_.names(), (std::vector<std::string>{"large.safetensors", "out"}));
  }
  if (!io::AtomicFile::create(directory_ / "x", 5'000'000, {}).value()->file().direct())
    GTEST_SKIP() << "all but writes past the page cache, which the temporary directory's file system does not do";
}

}  // namespace
}  // namespace safetensors::test
