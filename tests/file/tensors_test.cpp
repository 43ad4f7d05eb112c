// The interface that File and Checkpoint share, and views and reads of slices.
#include <gtest/gtest.h>
#include <safetensors/safetensors.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

class TensorsTest : public ::testing::Test {
 protected:
  void SetUp() override { put(directory_ / "two.safetensors", two_tensors()); }
  TemporaryDirectory directory_;
};

// Generic code: takes a File or a Checkpoint.
template <class Set>
std::string summary(const Set& set) {
  std::string text = std::to_string(set.size()) + (set.empty() ? " empty:" : ":");
  for (const Tensor& tensor : set) text += " " + std::string(tensor.name());
  for (const std::string_view name : set.names()) text += set.contains(name) ? "+" : "-";
  const Tensor a = set["a"];
  text += " " + to_string(a.shape()) + " " + std::to_string(set["b"].numel());
  return text + (set.contains("c") ? "!" : "") + " " + std::to_string(set.metadata().size());
}

TEST_F(TensorsTest, AreEqualOfFileAndCheckpoint) {
  const std::filesystem::path path = directory_ / "two.safetensors";
  const File file = File::open(path).value();
  const Checkpoint checkpoint = Checkpoint::open(path).value();
  EXPECT_EQ(summary(file), "2: a b++ [2, 3] 2 0");
  EXPECT_EQ(summary(checkpoint), summary(file));
  EXPECT_EQ(to_string(file.tensors()[1]), "b U16 [2]");
  EXPECT_EQ(to_string(file.tensors()[1]), "b U16 [2]");
  EXPECT_EQ(std::distance(file.begin(), file.end()), 2);
  if (!kBigEndian) {
    EXPECT_EQ(checkpoint.get<float>("a", {2, 3}).value()(1, 2), 5.0F);
  }
  EXPECT_EQ(error_of(file.tensor("c")).code, Errc::not_found);
}

TEST_F(TensorsTest, IndexByNameThrows) {
  const File file = File::open(directory_ / "two.safetensors").value();
  try {
    (void)file["c"];
    FAIL();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.error().code, Errc::not_found);
    EXPECT_NE(exception.error().message.find("is it `a`?"), std::string::npos) << exception.what();
  }
}

TEST_F(TensorsTest, ViewContiguousSliceWithoutCopy) {
  for (const Access access : {Access::map, Access::read}) {
    const File file = File::open(directory_ / "two.safetensors", {.access = access}).value();
    const Tensor a = file["a"];
    const Array row = a.view(Slice::shard(0, 1, 2)).value();
    EXPECT_EQ(row.shape(), (Shape{1, 3}));
    EXPECT_EQ(elements<float>(row), (std::vector<float>{3, 4, 5}));
    EXPECT_EQ(elements<float>(a.view("1").value()), (std::vector<float>{3, 4, 5}));
    EXPECT_EQ(a.view("0:0").value().nbytes(), 0U);
    EXPECT_EQ(row.memory(), access == Access::map ? MemoryKind::shared_map : MemoryKind::owned);
    if (access == Access::map) {
      const Array whole = a.view().value();
      EXPECT_EQ(row.bytes().data(), whole.bytes().data() + 12);
    }
    const Error error = error_of(a.view(":,1"));
    EXPECT_EQ(error.code, Errc::slice_not_contiguous);
    EXPECT_EQ(error.message, "tensor `a`: the slice has 2 runs in the tensor, expected one: read() copies any slice");
    EXPECT_EQ(error_of(a.view("::-1")).code, Errc::slice_not_contiguous);
    EXPECT_EQ(error_of(a.view("x")).code, Errc::slice_syntax);
    EXPECT_EQ(error_of(a.view("2")).code, Errc::slice_index);
  }
}

TEST_F(TensorsTest, ViewSliceCopyOnWrite) {
  const File file = File::open(directory_ / "two.safetensors", {.access = Access::map}).value();
  Array row = file["a"].view("1", Map::copy_on_write).value();
  row.mutable_bytes().value()[0] = std::byte{9};
  EXPECT_EQ(elements<float>(file["a"].read("1")), (std::vector<float>{3, 4, 5}));
}

TEST_F(TensorsTest, SliceOfArrayShares) {
  const File file = File::open(directory_ / "two.safetensors").value();
  Array array = file["a"].read().value();
  const Array row = array.slice("1").value();
  EXPECT_EQ(row.shape(), Shape{3});
  array.mutable_bytes().value()[12] = std::byte{7};
  EXPECT_EQ(row.bytes()[0], std::byte{7});
  EXPECT_EQ(row.owner(), array.owner());
  const Array none = array.slice("0:0,1:").value();
  EXPECT_EQ(none.shape(), (Shape{0, 2}));
  EXPECT_EQ(error_of(array.slice(":,0:2")).code, Errc::slice_not_contiguous);
  EXPECT_EQ(error_of(array.slice("5")).code, Errc::slice_index);
}

TEST_F(TensorsTest, ReadAsConvertsElements) {
  const File file = File::open(directory_ / "two.safetensors").value();
  EXPECT_EQ(swapped_if_big_endian(file["a"].read_as<double>("1,::2").value()), (std::vector<double>{3, 5}));
  EXPECT_EQ(swapped_if_big_endian(file["a"].read_as<float>().value()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(swapped_if_big_endian(file["b"].read_as<std::uint16_t>().value()), (std::vector<std::uint16_t>{1, 2}));
  EXPECT_TRUE(file["b"].read_as<std::uint16_t>("1:1").value().empty());
  EXPECT_EQ(error_of(file["b"].read_as<char>()).code, Errc::dtype_mismatch);
  EXPECT_EQ(error_of(file["b"].read_as<float>()).code, Errc::dtype_mismatch);
  EXPECT_EQ(error_of(file["a"].read_as<float>("7")).message,
            "tensor `a`: index 7 is out of range for dimension 0 of size 2");
}

TEST_F(TensorsTest, ReadAsRefusesMoreThanMemoryHolds) {
  constexpr std::uint64_t kBytes = 2305843009213692000;
  const std::string header = one_header("F16", "[1152921504606846000]", kBytes);
  Result<File> file = File::from_source(std::make_shared<FilledSource>(header, kBytes));
  ASSERT_TRUE(succeeds(file));
  const Error error = error_of((*file)["t"].read_as<double>());
  EXPECT_EQ(error.code, Errc::out_of_memory);
  EXPECT_EQ(error.message, "tensor `t`: cannot allocate 1152921504606846000 elements of 8 bytes");
}

TEST_F(TensorsTest, PrintAsText) {
  const File file = File::open(directory_ / "two.safetensors").value();
  std::ostringstream out;
  for (const Tensor& tensor : file) out << tensor << '\n';
  out << file["a"].read().value() << '\n'
      << *file.header().find("b") << '\n'
      << Dtype::BF16 << ' ' << Errc::not_found << '\n';
  out << Shape{1, 2} << ' ' << error_of(file["a"].view("x")) << '\n';
  EXPECT_EQ(out.str(),
            "a F32 [2, 3]\nb U16 [2]\nF32 [2, 3]\nb U16 [2]\nBF16 not_found\n[1, 2] " + directory_.path() +
                "/two.safetensors: tensor `a`: invalid slice: unexpected `x` at column 1, want a number, `:` "
                "or `...`\n");
  put(directory_ / "hostile.safetensors", u8_file({{"\\u001b[31m", "x"}}));
  const File hostile = File::open(directory_ / "hostile.safetensors").value();
  EXPECT_EQ(to_string(hostile.tensors()[0]), "\\u{1b}[31m U8 [1]");
}

}  // namespace
}  // namespace safetensors::test
