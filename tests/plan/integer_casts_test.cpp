// Casts of integers in plans: the values, and the error that names the element, across chunks, slices and strides.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace safetensors {
namespace {

using namespace test;

constexpr std::uint64_t kRows = 300;
constexpr std::uint64_t kColumns = 70;

// `t`: I64 of [300, 70]. Element [i, j] is (i * 70 + j) % 100, except `wrong`, which is -129. `s`: a scalar of U8.
class IntegerCasts : public testing::Test {
 protected:
  void open(std::uint64_t row, std::uint64_t column) {
    std::vector<std::int64_t> values(kRows * kColumns);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i % 100);
    if (row < kRows) values[static_cast<std::size_t>(row * kColumns + column)] = -129;
    std::string bytes(values.size() * 8, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<char>(static_cast<std::uint64_t>(values[i / 8]) >> (8 * (i % 8)));
    const std::vector<PlannedTensor> tensors = {
        {.name = "t", .dtype = Dtype::I64, .shape = {kRows, kColumns}, .bytes = bytes},
        {.name = "s", .dtype = Dtype::U8, .shape = {}, .bytes = "\xC8"}};
    Result<File> file = File::from_source(std::make_shared<ScriptedSource>(file_of(tensors, 0)));
    ASSERT_TRUE(succeeds(file));
    file_ = *std::move(file);
  }
  Error error_with(const Slice& slice, Dtype to, const ReadOptions& options, const Destination& destination = {}) {
    ReadPlan plan;
    EXPECT_TRUE(succeeds(plan.add(tensor(*file_, "t"), slice, destination, to)));
    return error_of(plan.execute(options));
  }
  void expect_at(const Error& error, std::uint64_t row, std::uint64_t column, const std::string& range) {
    EXPECT_EQ(error.code, Errc::value_out_of_range);
    EXPECT_EQ(error.message, "tensor `t`: cannot cast I64 to " + range.substr(0, range.find(' ')) + ": element [" +
                                 std::to_string(row) + ", " + std::to_string(column) + "] is -129, the range of " +
                                 range);
    EXPECT_EQ(error.offset, file_->header().find("t")->file_offset + (row * kColumns + column) * 8);
  }

  std::optional<File> file_;
};

TEST_F(IntegerCasts, NameElementInAnyChunk) {
  for (const std::uint64_t element : {0U, 1U, 69U, 70U, 511U, 512U, 513U, 9999U, 20999U}) {
    open(element / kColumns, element % kColumns);
    for (const std::uint64_t chunk : {64U, 4096U, 5000U, 65536U}) {
      const test::ChunkBytes chunks(chunk);
      expect_at(error_with({}, Dtype::I8, {.threads = 2}), element / kColumns, element % kColumns, "I8 is -128 to 127");
    }
  }
}

TEST_F(IntegerCasts, NameElementOfTensorInSlices) {
  open(130, 21);
  for (const char* slice : {":", "100:200", "130", "::2, 1::4", "::-1, ::-1", "130:131, 21:22", "300:129:-1, 20:23"}) {
    for (const std::uint64_t chunk : {64U, 4096U, 1U << 20}) {
      SCOPED_TRACE(slice);
      const test::ChunkBytes chunks(chunk);
      expect_at(error_with(Slice::parse(slice).value(), Dtype::U16, {}), 130, 21, "U16 is 0 to 65535");
    }
  }
}

TEST_F(IntegerCasts, NameElementWithStrides) {
  open(299, 69);
  std::vector<std::byte> memory(kRows * kColumns);
  const std::uint64_t strides[] = {1, kRows};  // transposed
  expect_at(error_with({}, Dtype::I8, {}, {.bytes = memory, .strides = strides}), 299, 69, "I8 is -128 to 127");
}

TEST_F(IntegerCasts, SkipValueOutsideOfSlice) {
  open(130, 21);
  for (const char* slice : {":130", "131:", ":, :21", ":, 22:", "::-1, 0"}) {
    EXPECT_TRUE(succeeds(tensor(*file_, "t").read_as<std::uint8_t>(slice))) << slice;
  }
}

TEST_F(IntegerCasts, PlaceValuesWithStrides) {
  open(kRows, 0);
  std::vector<std::byte> memory(kRows * kColumns * 2);
  const std::uint64_t strides[] = {2, kRows * 2};
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(*file_, "t"), {}, {.bytes = memory, .strides = strides}, Dtype::U16)));
  const test::ChunkBytes chunks(5000);
  ASSERT_TRUE(succeeds(plan.execute({})));
  for (std::uint64_t row = 0; row < kRows; ++row)
    for (std::uint64_t column = 0; column < kColumns; ++column)
      ASSERT_EQ(memory[static_cast<std::size_t>((column * kRows + row) * 2)],
                static_cast<std::byte>((row * kColumns + column) % 100));
}

TEST_F(IntegerCasts, ReadAsOtherInteger) {
  open(kRows, 0);
  const Result<std::vector<std::int8_t>> values = tensor(*file_, "t").read_as<std::int8_t>();
  ASSERT_TRUE(succeeds(values));
  for (std::size_t i = 0; i < values->size(); ++i) ASSERT_EQ((*values)[i], static_cast<std::int8_t>(i % 100));
  EXPECT_EQ(test::swapped_if_big_endian(tensor(*file_, "s").read_as<std::uint64_t>().value())[0], 200U);
  const Error error = error_of(tensor(*file_, "s").read_as<std::int8_t>());
  EXPECT_EQ(error.message, "tensor `s`: cannot cast U8 to I8: element [] is 200, the range of I8 is -128 to 127");
}

TEST_F(IntegerCasts, RefuseFloatsAndBooleans) {
  open(kRows, 0);
  for (const Dtype to : {Dtype::F32, Dtype::F64, Dtype::BOOL, Dtype::F4}) {
    ReadPlan plan;
    const Error error = error_of(plan.add(tensor(*file_, "t"), {}, {}, to));
    EXPECT_EQ(error.code, Errc::dtype_mismatch);
    EXPECT_EQ(error.message, "tensor `t`: cannot cast I64 to " + std::string(to_string(to)));
  }
}

}  // namespace
}  // namespace safetensors
