#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/read_plan.h>

#include <cstring>
#include <limits>
#include <memory>

#include "os/memory.h"
#include "support/file_support.h"
#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace safetensors {
namespace {

using test::error_of;
using test::file_bytes;
using test::file_of;
using test::PlannedTensor;
using test::PlanRandom;
using test::put;
using test::random_file;
using test::ScriptedSource;
using test::succeeds;
using test::TemporaryDirectory;
using test::tensor;
using test::tensors_of;
using test::two_tensors;

File open_bytes(std::string bytes) {
  Result<File> file = File::from_source(std::make_shared<ScriptedSource>(std::move(bytes)));
  EXPECT_TRUE(succeeds(file));
  return *std::move(file);
}

template <class Set>
ReadPlan plan_of(const Set& tensors, std::optional<Dtype> cast = std::nullopt) {
  ReadPlan plan;
  for (const Tensor& tensor : tensors) EXPECT_TRUE(succeeds(plan.add(tensor, {}, {}, cast)));
  return plan;
}

// Compares a buffer with the tensors that it was made from: each range, and the zeros between the ranges.
void expect_bytes(const ReadResult& packed, const std::vector<PlannedTensor>& tensors, std::uint64_t alignment) {
  const std::span<const std::byte> bytes = packed.memory.bytes();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment, 0U);
  ASSERT_EQ(packed.arrays.size(), tensors.size());
  std::vector<bool> covered(bytes.size());
  for (const PlannedTensor& tensor : tensors) {
    const Array* const array = packed.find(tensor.name);
    ASSERT_NE(array, nullptr) << tensor.name;
    EXPECT_EQ(array->dtype(), tensor.dtype);
    EXPECT_TRUE(std::ranges::equal(array->shape(), tensor.shape));
    EXPECT_EQ(array->memory(), MemoryKind::owned);
    const auto offset = static_cast<std::size_t>(array->bytes().data() - bytes.data());
    EXPECT_EQ(offset % alignment, 0U);
    ASSERT_EQ(array->nbytes(), tensor.bytes.size());
    ASSERT_LE(offset + tensor.bytes.size(), bytes.size());
    EXPECT_EQ(std::memcmp(bytes.data() + offset, tensor.bytes.data(), tensor.bytes.size()), 0) << tensor.name;
    for (std::size_t i = offset; i < offset + tensor.bytes.size(); ++i) {
      ASSERT_FALSE(covered[i]) << "two tensors share byte " << i;
      covered[i] = true;
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (covered[i]) continue;
    ASSERT_EQ(bytes[i], std::byte{0}) << "gap at " << i;
  }
}

TEST(ReadPacked, PlacesItemsInOrderOfPlan) {
  const File file = open_bytes(two_tensors());
  ReadPlan plan;
  for (const char* const name : {"b", "a"}) ASSERT_TRUE(succeeds(plan.add(tensor(file, name))));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), ":,1")));
  std::vector<std::string> reserved;
  const ReadOptions options{.on_reserved = [&](std::span<const Array> arrays) {
    for (const Array& array : arrays) reserved.push_back(to_string(array.shape()));
    return true;
  }};
  Result<ReadResult> packed = read_packed(plan, 16, options);
  ASSERT_TRUE(succeeds(packed));
  EXPECT_EQ(packed->memory.dtype(), Dtype::U8);
  EXPECT_EQ(packed->memory.nbytes(), 56U);
  const std::byte* const start = packed->memory.bytes().data();
  EXPECT_EQ(packed->arrays[0].bytes().data(), start);
  EXPECT_EQ(packed->arrays[1].bytes().data(), start + 16);
  EXPECT_EQ(packed->arrays[2].bytes().data(), start + 48);
  EXPECT_EQ(packed->find("a"), &packed->arrays[1]) << "the first item of a name counts";
  EXPECT_EQ(reserved, (std::vector<std::string>{"[2]", "[2, 3]", "[2]"}));
  Array b = packed->arrays[0];
  *packed = ReadResult();  // the array keeps the memory
  EXPECT_EQ(test::elements<std::uint16_t>(b), (std::vector<std::uint16_t>{1, 2}));
}

TEST(ReadPacked, RefusesAlignment) {
  const ReadPlan plan = plan_of(open_bytes(two_tensors()));
  for (const std::uint64_t alignment : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{8192}, ~std::uint64_t{0}}) {
    const Error error = error_of(read_packed(plan, alignment));
    EXPECT_EQ(error.code, Errc::invalid_argument);
    EXPECT_EQ(error.message,
              "invalid alignment " + std::to_string(alignment) + ", expected a power of two from 1 to 4096");
  }
}

TEST(ReadPacked, RefusesDestination) {
  const File file = open_bytes(two_tensors());
  std::vector<std::byte> memory(4);
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "b"), {}, {memory})));
  const Error error = error_of(read_packed(plan));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "tensor `b`: it has a destination, expected none in a buffer of the library");
}

// A tensor of 2^61-1 bytes is the largest possible one.
TEST(ReadPacked, RefusesBufferOf2To64Bytes) {
  constexpr std::uint64_t kBytes = (std::uint64_t{1} << 61) - 1;
  const Result<File> file = File::from_source(std::make_shared<test::FilledSource>(test::one_header(kBytes), kBytes));
  ASSERT_TRUE(succeeds(file));
  ReadPlan plan;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(succeeds(plan.add(tensor(*file, "t"))));
  EXPECT_EQ(error_of(read_packed(plan)).code, Errc::out_of_memory);
  ASSERT_TRUE(succeeds(plan.add(tensor(*file, "t"), "0")));
  const Error error = error_of(read_packed(plan));
  EXPECT_EQ(error.code, Errc::size_overflow);
  EXPECT_EQ(error.message, "tensor `t`: the buffer would be larger than 2^64-1 bytes");
}

TEST(ReadPacked, ReadsNothingWithoutItems) {
  const Result<ReadResult> packed = read_packed(ReadPlan());
  ASSERT_TRUE(succeeds(packed));
  EXPECT_EQ(to_string(packed->memory.shape()), "[0]");
  EXPECT_TRUE(packed->arrays.empty());
}

// Random files with all dtypes, empty tensors and neighbours of all sizes.
TEST(ReadPacked, GivesBytesOfFile) {
  constexpr std::uint64_t kChunk = 65536;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    PlanRandom random(seed);
    const test::PlannedFile planned = random_file(random, kChunk, 300000);
    const ReadPlan plan = plan_of(open_bytes(planned.bytes));
    for (std::uint64_t alignment = 1; alignment <= 4096; alignment *= random.one_in(4) ? 2 : 16) {
      const test::ChunkBytes chunks(kChunk);
      const ReadOptions read{.threads = static_cast<unsigned>(random.up_to(3))};
      const Result<ReadResult> packed = read_packed(plan, alignment, read);
      ASSERT_TRUE(succeeds(packed));
      expect_bytes(*packed, planned.tensors, alignment);
    }
  }
}

TEST(ReadPacked, ReadsFilesOfCheckpointInHugePages) {
  const TemporaryDirectory directory;
  std::vector<PlannedTensor> all;
  for (const char* const name : {"one", "two"}) {
    std::vector<PlannedTensor> tensors = tensors_of({os::kHugePage + 5, 0, 7, 300000});
    for (PlannedTensor& tensor : tensors) tensor.name = std::string(name) + tensor.name;
    put(directory / (std::string(name) + ".safetensors"), file_of(tensors, 64));
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  const Result<Checkpoint> model = Checkpoint::open(directory / "*.safetensors");
  ASSERT_TRUE(succeeds(model));
  for (const bool uncached : {false, true}) {
    const auto empty = uncached ? std::make_unique<test::AssumeUncached>() : nullptr;
    const Result<ReadResult> packed = read_packed(plan_of(*model), 64, {.cache = Cache::keep});
    ASSERT_TRUE(succeeds(packed));
    EXPECT_EQ(packed->report.bytes, 2 * (os::kHugePage + 5 + 7 + 300000));
    expect_bytes(*packed, all, 64);
  }
}

TEST(ReadPacked, CastsAndReadsUnknownDtype) {
  const std::string bytes = file_bytes(R"({"f":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                       R"("q":{"dtype":"Q4_K","shape":[2,3],"data_offsets":[8,13]}})",
                                       std::string("\0\0\x80\x3f\0\0\0\xc0hello", 13));
  const Result<File> file =
      File::from_source(std::make_shared<ScriptedSource>(bytes), {.accept = {.unknown_dtypes = true}});
  ASSERT_TRUE(succeeds(file));
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(*file, "f"), {}, {}, Dtype::F64)));
  ASSERT_TRUE(succeeds(plan.add(tensor(*file, "q"))));
  const Result<ReadResult> packed = read_packed(plan, 8);
  ASSERT_TRUE(succeeds(packed));
  EXPECT_EQ(test::elements<double>(packed->arrays[0]), (std::vector<double>{1, -2}));
  EXPECT_EQ(to_string(packed->arrays[1].shape()), "[5]");
  EXPECT_EQ(std::memcmp(packed->memory.bytes().data() + 16, "hello", 5), 0);
}

TEST(ReadPacked, NamesTensorThatFails) {
  const auto source = std::make_shared<ScriptedSource>(two_tensors());
  const ReadPlan plan = plan_of(File::from_source(source).value());
  source->fail_from = two_tensors().size() - 1;
  const Error error = error_of(read_packed(plan));
  EXPECT_EQ(error.code, Errc::read_failed);
  EXPECT_EQ(error.message, "tensor `a`: no answer from the server");  // one read for both tensors
  source->fail_from = ~std::uint64_t{0};
  EXPECT_TRUE(succeeds(read_packed(plan)));  // the plan is still good
}

}  // namespace
}  // namespace safetensors
