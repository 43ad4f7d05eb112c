// Files whose faults the caller accepts: bytes of tensors, and the headers for other processes.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <cstdint>
#include <string>
#include <vector>

#include "file/file.h"
#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

// `a` of unknown dtype, `c` of U8, and 2 unused bytes.
const std::string kText =
    R"({"a":{"dtype":"X8","shape":[2,5],"data_offsets":[0,6]},"c":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})";
const std::string kData = "abcdefcc==";

class FileAccept : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string head(8, '\0');
    head[0] = static_cast<char>(kText.size());
    put(path_, head + kText + kData);
  }
  [[nodiscard]] File open(Access access = Access::automatic) const {
    return File::open(path_, {.access = access, .parse = {.accept = Accept::all()}}).value();
  }
  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "a.safetensors";
};

std::string text_of(const Array& array) {
  return {reinterpret_cast<const char*>(array.bytes().data()), array.bytes().size()};
}

void expect_bytes(const Result<Array>& array) {
  ASSERT_TRUE(succeeds(array));
  EXPECT_EQ(array->dtype(), Dtype::U8);
  EXPECT_EQ(array->shape(), Shape{6});
  EXPECT_EQ(text_of(*array), "abcdef");
}

TEST_F(FileAccept, IsStrictByDefault) {
  EXPECT_EQ(error_of(File::open(path_)).code, Errc::unknown_dtype);
}

TEST_F(FileAccept, ReadsUnknownDtypeAsBytes) {
  for (const Access access : {Access::map, Access::read}) {
    const File file = open(access);
    const Tensor tensor = file.tensor("a").value();
    EXPECT_EQ(tensor.dtype(), Dtype::UNKNOWN);
    EXPECT_EQ(Shape(tensor.shape()), (Shape{2, 5}));
    EXPECT_EQ(tensor.nbytes(), 6u);
    expect_bytes(tensor.view());
    expect_bytes(tensor.view({}, Map::copy_on_write));
    expect_bytes(tensor.read());
    std::string bytes(6, ' ');
    ASSERT_TRUE(succeeds(tensor.read_into(std::as_writable_bytes(std::span(bytes)))));
    EXPECT_EQ(bytes, "abcdef");
    EXPECT_EQ(tensor.get<std::uint8_t>().value()(5), 'f');
    EXPECT_EQ(tensor.read_as<std::uint8_t>().value().size(), 6u);
    EXPECT_EQ(text_of(file.tensor("c").value().read().value()), "cc");
    EXPECT_EQ(text_of(file.view().value()), kData);
  }
}

TEST_F(FileAccept, RefusesElementsOfUnknownDtype) {
  const Tensor tensor = open().tensor("a").value();
  const std::string named = "tensor `a`: ";
  std::string bytes(5, ' ');
  const auto destination = std::as_writable_bytes(std::span(bytes));
  for (const Error& error :
       {error_of(tensor.view(Slice("0"))), error_of(tensor.read(Slice("0"))), error_of(tensor.read("...")),
        error_of(tensor.read_into(destination, "0")), error_of(tensor.read_as<std::uint8_t>(Slice("0")))}) {
    EXPECT_EQ(error.code, Errc::dtype_mismatch);
    EXPECT_EQ(error.message, named +
                                 "cannot slice a tensor of unknown dtype: the size of its elements is unknown (read "
                                 "all of its bytes)");
    EXPECT_EQ(error.path, path_);
  }
  EXPECT_EQ(error_of(tensor.get<float>()).code, Errc::dtype_mismatch);
  EXPECT_EQ(error_of(tensor.read_as<float>()).message,
            named + "cannot cast a tensor of unknown dtype to F32 (read its bytes)");
  ReadPlan plan;
  EXPECT_EQ(error_of(plan.add(tensor, {}, {}, Dtype::UNKNOWN)).code, Errc::dtype_mismatch);
  EXPECT_EQ(error_of(plan.add(open().tensor("c").value(), {}, {}, Dtype::UNKNOWN)).code, Errc::dtype_mismatch);
}

TEST_F(FileAccept, PlansUnknownDtypeAsBytes) {
  const File file = open();
  ReadPlan plan;
  for (const Tensor& tensor : file.tensors()) ASSERT_TRUE(succeeds(plan.add(tensor)));
  EXPECT_EQ(error_of(plan.add(file.tensor("a").value(), Slice("0"))).code, Errc::dtype_mismatch);
  EXPECT_EQ(plan.nbytes(), 8u);
  const ReadResult result = plan.execute().value();
  expect_bytes(result.arrays[0]);
  EXPECT_EQ(text_of(result.arrays[1]), "cc");
}

TEST_F(FileAccept, PassesOptionsToFilesOfCheckpoint) {
  const OpenOptions options{.parse = {.accept = Accept::all()}};
  const Checkpoint checkpoint = Checkpoint::open(path_, options).value();
  EXPECT_TRUE(checkpoint.files()[0].header().tolerated().any());
  const Tensor tensor = checkpoint.tensor("a").value();
  EXPECT_EQ(checkpoint.files()[0].header().dtype_name(tensor.info()), "X8");
  expect_bytes(tensor.read());
  EXPECT_EQ(error_of(Checkpoint::open(path_)).code, Errc::unknown_dtype);
}

}  // namespace
}  // namespace safetensors::test
