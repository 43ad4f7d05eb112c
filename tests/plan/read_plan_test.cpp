#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include "os/parallel.h"
#include "support/file_support.h"

namespace safetensors {
namespace {

using test::data_of;
using test::elements;
using test::error_of;
using test::one_tensor;
using test::pattern;
using test::put;
using test::ScriptedSource;
using test::succeeds;
using test::swapped_if_big_endian;
using test::TemporaryDirectory;
using test::tensor;
using test::two_tensors;

File open_source(std::shared_ptr<ScriptedSource> source) {
  Result<File> file = File::from_source(std::move(source));
  EXPECT_TRUE(succeeds(file));
  return *std::move(file);
}

// Larger than one piece of a read by far, and no multiple of it.
constexpr std::size_t kLarge = 5 * os::kReadChunk + 12345;

TEST(ReadPlan, GivesArraysInOrderOfAdding) {
  const File file = open_source(std::make_shared<ScriptedSource>(two_tensors()));
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "b"))));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"))));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), Slice{DimSlice::at(1), DimSlice::range(1, 3)})));
  EXPECT_EQ(plan.size(), 3U);
  for (int again = 0; again < 2; ++again) {  // reusable
    const Result<ReadResult> result = plan.execute();
    ASSERT_TRUE(succeeds(result));
    ASSERT_EQ(result->arrays.size(), 3U);
    EXPECT_EQ(elements<std::uint16_t>(result->arrays[0]), (std::vector<std::uint16_t>{1, 2}));
    EXPECT_EQ(elements<float>(result->arrays[1]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(elements<float>(result->arrays[2]), (std::vector<float>{4, 5}));
    EXPECT_EQ(to_string(result->arrays[2].shape()), "[2]");
    EXPECT_EQ(result->arrays[1].memory(), MemoryKind::owned);
    EXPECT_TRUE(result->arrays[1].writable());
  }
}

TEST(ReadPlan, ReadsLargeTensorWithAnyThreads) {
  const std::string bytes = one_tensor("U8", "[" + std::to_string(kLarge) + "]", kLarge);
  for (const unsigned threads : {0U, 1U, 2U, 7U, 1000U}) {
    const auto source = std::make_shared<ScriptedSource>(bytes);
    source->most = os::kReadChunk / 3;  // short reads
    const File file = open_source(source);
    (void)source->reads();
    ReadPlan plan;
    ASSERT_TRUE(succeeds(plan.add(tensor(file, "t"))));
    const Result<ReadResult> result = plan.execute({.threads = threads});
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(data_of(result->arrays[0]) == pattern(kLarge)) << threads;
    for (const format::ByteRun& read : source->reads()) EXPECT_LE(read.size, os::kReadChunk);
  }
}

TEST(ReadPlan, ReadsIntoMemoryOfCaller) {
  const File file = open_source(std::make_shared<ScriptedSource>(two_tensors()));
  std::vector<float> whole(6);
  std::vector<float> column(2);
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), {}, {std::as_writable_bytes(std::span(whole))})));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), Slice{DimSlice::all(), DimSlice::at(2)},
                                {std::as_writable_bytes(std::span(column))})));
  const Result<ReadResult> result = plan.execute();
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(swapped_if_big_endian(whole), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(swapped_if_big_endian(column), (std::vector<float>{2, 5}));
  EXPECT_EQ(result->arrays[0].bytes().data(), reinterpret_cast<const std::byte*>(whole.data()));
  EXPECT_EQ(result->arrays[0].memory(), MemoryKind::borrowed);
}

TEST(ReadPlan, RefusesDestinationOfOtherSize) {
  const File file = open_source(std::make_shared<ScriptedSource>(two_tensors()));
  std::vector<std::byte> memory(23);
  ReadPlan plan;
  const Status status = plan.add(tensor(file, "a"), {}, {memory});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::buffer_size);
  EXPECT_EQ(status.error().message, "tensor `a`: the result has 24 bytes, the destination 23");
  EXPECT_EQ(plan.size(), 0U);
}

TEST(ReadPlan, RefusesOverlappingDestinations) {
  const File file = open_source(std::make_shared<ScriptedSource>(two_tensors()));
  std::vector<std::byte> memory(28);
  const std::span<std::byte> all(memory);
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "b"), {}, {all.subspan(23, 4)})));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "b"))));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), {}, {all.subspan(0, 24)})));
  for (const Error& error : {error_of(plan.execute()), error_of(plan.stream())}) {
    EXPECT_EQ(error.code, Errc::overlapping_destination);
    EXPECT_EQ(error.message, "tensor `a`: its destination overlaps that of tensor `b`");
  }
  EXPECT_EQ(memory, std::vector<std::byte>(28));
}

TEST(ReadPlan, DestinationsMayTouch) {
  const File file = open_source(std::make_shared<ScriptedSource>(two_tensors()));
  std::vector<std::byte> memory(28);
  const std::span<std::byte> all(memory);
  const Slice none{DimSlice::range(0, 0)};
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "b"), {}, {all.subspan(24)})));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), {}, {all.subspan(0, 24)})));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), none, {all.subspan(12, 0)})));
  EXPECT_TRUE(succeeds(plan.execute()));
}

// A column beside a column: their ranges overlap, their bytes do not.
TEST(ReadPlan, DestinationsWithStridesMayInterleave) {
  const File file = open_source(std::make_shared<ScriptedSource>(two_tensors()));
  std::vector<float> matrix(4);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(matrix));
  const std::uint64_t strides[] = {8};
  ReadPlan plan;
  for (std::int64_t i = 0; i < 2; ++i)
    ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), Slice{DimSlice::all(), DimSlice::at(i)},
                                  {bytes.subspan(static_cast<std::size_t>(i) * 4), strides})));
  ASSERT_TRUE(succeeds(plan.execute()));
  EXPECT_EQ(swapped_if_big_endian(matrix), (std::vector<float>{0, 1, 3, 4}));
}

TEST(ReadPlan, RefusesSliceThatDoesNotFit) {
  const File file = open_source(std::make_shared<ScriptedSource>(two_tensors()));
  ReadPlan plan;
  const Status status = plan.add(tensor(file, "a"), Slice{DimSlice::at(2)});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::slice_index);
  EXPECT_EQ(plan.size(), 0U);
}

TEST(RunParallel, RunsEachTaskOnce) {
  for (const unsigned threads : {0U, 1U, 2U, 16U, 100U}) {
    std::vector<std::atomic<int>> runs(1000);
    const auto count = [&](std::size_t index) { return ++runs[index], Status(); };
    ASSERT_TRUE(succeeds(os::run_parallel(runs.size(), threads, count)));
    for (const std::atomic<int>& each : runs) EXPECT_EQ(each, 1);
  }
}

TEST(RunParallel, StopsAtFailureOfLowestIndex) {
  for (const unsigned threads : {1U, 2U, 8U}) {
    std::vector<std::atomic<int>> runs(100'000);
    const auto fail = [&](std::size_t index) -> Status {
      ++runs[index];
      if (index < 17) return {};
      return Error{.code = Errc::read_failed, .message = std::to_string(index)};
    };
    const Status status = os::run_parallel(runs.size(), threads, fail);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "17");
    EXPECT_EQ(runs.back(), 0);
  }
}

TEST(RunParallel, CountsOneTo16UsableProcessors) {
  EXPECT_GE(os::usable_processors(), 1U);
  EXPECT_LE(os::usable_processors(), 16U);
}

TEST(FileView, GivesBytesOfAllTensors) {
  const TemporaryDirectory directory;
  const std::string path = directory / "t.safetensors";
  const std::string bytes = two_tensors();
  put(path, bytes);
  const struct {
    Result<File> file;
    MemoryKind shared, own;
  } cases[] = {
      {File::open(path, {.access = Access::map}), MemoryKind::shared_map, MemoryKind::copy_on_write_map},
      {File::open(path, {.access = Access::read}), MemoryKind::owned, MemoryKind::owned},
      {File::from_memory(test::bytes_of(bytes), nullptr), MemoryKind::borrowed, MemoryKind::owned},
  };
  for (const auto& each : cases) {
    ASSERT_TRUE(succeeds(each.file));
    const std::string data = bytes.substr(each.file->header().data_start());
    const Result<Array> shared = each.file->view();
    ASSERT_TRUE(succeeds(shared));
    EXPECT_EQ(shared->memory(), each.shared);
    EXPECT_EQ(shared->dtype(), Dtype::U8);
    EXPECT_EQ(to_string(shared->shape()), "[28]");
    EXPECT_EQ(data_of(*shared), data);
    Result<Array> mine = each.file->view(Map::copy_on_write);
    ASSERT_TRUE(succeeds(mine));
    EXPECT_EQ(mine->memory(), each.own);
    mine->mutable_bytes().value()[0] = std::byte{7};
    EXPECT_EQ(data_of(*shared), data);
  }
  EXPECT_EQ(test::contents(path), bytes);
}

}  // namespace
}  // namespace safetensors
