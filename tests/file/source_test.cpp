#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/source.h>

#include <algorithm>
#include <random>

#include "support/file_support.h"
#include "support/naive_slice.h"

namespace safetensors {
namespace {

using test::data_of;
using test::elements;
using test::error_of;
using test::one_tensor;
using test::pattern;
using test::ScriptedSource;
using test::succeeds;
using test::tensor;
using test::two_tensors;

TEST(Source, GivesNoMemoryByDefault) {
  const ScriptedSource source("bytes");
  EXPECT_TRUE(source.Source::memory(0, 5).bytes.empty());
}

TEST(Source, RefusesNull) {
  EXPECT_EQ(error_of(File::from_source(nullptr)).code, Errc::invalid_argument);
}

TEST(Source, ContinuesShortReads) {
  const auto source = std::make_shared<ScriptedSource>(two_tensors());
  source->most = 3;
  const auto file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  EXPECT_EQ(file->access(), Access::read);
  EXPECT_EQ(file->path(), "");
  EXPECT_EQ(tensor(*file, "a").view().value().memory(), MemoryKind::owned);
  EXPECT_EQ(elements<float>(tensor(*file, "a").read())[5], 5.0F);
  EXPECT_EQ(elements<float>(tensor(*file, "a").read({DimSlice::all(), DimSlice::at(1)}))[1], 4.0F);
}

TEST(Source, NamesTensorAndOffsetOfFailure) {
  const auto source = std::make_shared<ScriptedSource>(two_tensors());
  const auto file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  const std::uint64_t data = file->header().data_start();
  source->fail_from = data + 24;
  EXPECT_TRUE(succeeds(tensor(*file, "a").read()));
  const Error error = error_of(tensor(*file, "b").read());
  EXPECT_EQ(error.code, Errc::read_failed);
  EXPECT_EQ(error.os_error, 5);
  EXPECT_EQ(error.offset, data + 24);
  EXPECT_EQ(error.message, "tensor `b`: no answer from the server");
  EXPECT_EQ(error_of(tensor(*file, "b").view()).message, error.message);
  EXPECT_EQ(error_of(tensor(*file, "b").read({DimSlice::at(1)})).offset, data + 26);
  source->fail_from = ~std::uint64_t{0};
  EXPECT_TRUE(succeeds(tensor(*file, "b").read()));
}

TEST(Source, ReportsMissingCodeAsReadFailed) {
  const auto source = std::make_shared<ScriptedSource>(two_tensors());
  const auto file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  source->fail_from = 0;
  source->fail_code = Errc::ok;
  EXPECT_EQ(error_of(tensor(*file, "b").read()).code, Errc::read_failed);
  EXPECT_EQ(error_of(File::from_source(source)).code, Errc::read_failed);
}

TEST(Source, ReportsFailuresDuringOpen) {
  const auto no_size = std::make_shared<ScriptedSource>(two_tensors());
  no_size->fail_size = true;
  EXPECT_EQ(error_of(File::from_source(no_size)).message, "no answer from the server");
  for (const std::uint64_t from : {0U, 4U, 8U, 50U}) {
    const auto source = std::make_shared<ScriptedSource>(two_tensors());
    source->fail_from = from;
    const Error error = error_of(File::from_source(source));
    EXPECT_EQ(error.code, Errc::read_failed);
    EXPECT_EQ(error.message, "no answer from the server");
  }
  const auto shorter = std::make_shared<ScriptedSource>(two_tensors());
  shorter->ends_at = 40;
  EXPECT_EQ(error_of(File::from_source(shorter)).code, Errc::file_truncated);
}

TEST(Source, ReadsOnlyHeaderDuringOpen) {
  const auto source = std::make_shared<ScriptedSource>(two_tensors());
  const auto file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  const std::uint64_t n = file->header().header_bytes();
  EXPECT_EQ(source->reads(), (std::vector<format::ByteRun>{{0, 8}, {8, n}}));
  (void)file->tensor("a");
  EXPECT_TRUE(source->reads().empty());
}

// The reads of a slice of tensor "t", with offsets from the tensor's first byte.
class SliceReading : public ::testing::Test {
 protected:
  void open(std::string_view dtype, std::string_view shape, std::size_t size) {
    source_ = std::make_shared<ScriptedSource>(one_tensor(dtype, shape, size));
    Result<File> file = File::from_source(source_);
    ASSERT_TRUE(succeeds(file));
    tensor_.emplace(file->tensor("t").value());
    data_ = pattern(size);
  }

  std::vector<format::ByteRun> reads_of(const Slice& slice) {
    (void)source_->reads();
    const Result<ResolvedSlice> resolved = slice.resolve(tensor_->dtype(), tensor_->shape());
    EXPECT_TRUE(succeeds(resolved));
    std::string expected;
    format::ByteRun run;
    for (format::Runs runs(*resolved); runs.next(run);) expected += data_.substr(run.offset, run.size);
    const Result<Array> array = tensor_->read(slice);
    EXPECT_TRUE(succeeds(array));
    EXPECT_TRUE(data_of(*array) == expected) << "other bytes than the runs say";
    std::vector<format::ByteRun> reads = source_->reads();
    read_ = 0;
    largest_ = 0;
    for (format::ByteRun& read : reads) {
      read.offset -= tensor_->info().file_offset;
      EXPECT_LE(read.offset + read.size, tensor_->nbytes());
      read_ += read.size;
      largest_ = std::max(largest_, read.size);
    }
    needed_ = expected.size();
    return reads;
  }

  std::shared_ptr<ScriptedSource> source_;
  std::optional<Tensor> tensor_;
  std::string data_;
  std::uint64_t read_ = 0, needed_ = 0, largest_ = 0;
};

constexpr std::uint64_t kMiB = 1 << 20;

TEST_F(SliceReading, ReadsContiguousSliceAtOnce) {
  open("U8", "[64,65536]", 4 * kMiB);
  EXPECT_EQ(reads_of({DimSlice::range(3, 40)}), (std::vector<format::ByteRun>{{3 * 65536, 37 * 65536}}));
  EXPECT_EQ(reads_of(Slice()), (std::vector<format::ByteRun>{{0, 4 * kMiB}}));
  EXPECT_EQ(reads_of({DimSlice::at(5), DimSlice::range(7, 10)}), (std::vector<format::ByteRun>{{5 * 65536 + 7, 3}}));
  EXPECT_TRUE(reads_of({DimSlice::range(5, 5)}).empty());
}

TEST_F(SliceReading, ReadsGapsOnlyBetweenSmallOrNearPieces) {
  const struct {
    const char *dtype, *shape;
    std::size_t size;
    const char* slice;
    std::size_t reads;        // at most
    std::uint64_t bytes = 0;  // at most; 0: without gaps
  } cases[] = {
      {"U8", "[16,131072]", 2 * kMiB, ":,1:65537", 16},
      {"U8", "[16,131072]", 2 * kMiB, "::-1", 16},
      {"U8", "[64,65536]", 4 * kMiB, ":,:8192", 64},  // distant
      {"U8", "[8,524288]", 4 * kMiB, ":,5:9", 8},     // tiny, but distant
      {"U8", "[256,10000]", 2'560'000, ":,:9000", 3, 2'304'000 * 5 / 4},
      {"U8", "[256,10000]", 2'560'000, "::-1,:9000", 3, 2'304'000 * 5 / 4},
      {"U16", "[2097152]", 4 * kMiB, "::2", 4, 4 * kMiB},
      {"U16", "[2097152]", 4 * kMiB, "::-3", 5, 4 * kMiB},
      {"F32", "[1024,1024]", 4 * kMiB, ":,7", 4, 4 * kMiB},
      {"F32", "[1024,1024]", 4 * kMiB, ":,::-1", 5, 4 * kMiB},
      {"F32", "[1024,1024]", 4 * kMiB, "::-1,8:72", 5, 4 * kMiB},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(std::string(each.shape) + "[" + each.slice + "]");
    open(each.dtype, each.shape, each.size);
    EXPECT_LE(reads_of(Slice(each.slice)).size(), each.reads);
    EXPECT_LE(read_, each.bytes == 0 ? needed_ : each.bytes);
    EXPECT_LE(largest_, kMiB);
  }
}

TEST_F(SliceReading, JoinsAdjacentPieces) {
  open("U8", "[3,3,65536]", 9 * 65536);
  // Rows 0, 2, 3, 5, 6, 8: the third of one and the first of the next lie side by side.
  EXPECT_EQ(reads_of({DimSlice::all(), DimSlice::range(std::nullopt, std::nullopt, 2)}),
            (std::vector<format::ByteRun>{{0, 65536}, {2 * 65536, 131072}, {5 * 65536, 131072}, {8 * 65536, 65536}}));
}

TEST_F(SliceReading, GivesBytesOfAnySlice) {
  std::minstd_rand random(4);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  for (const char* shape : {"[8,512,257]", "[257,4096]", "[4,4,16448,4]", "[1052672]"}) {
    open("U8", shape, 1052672);
    for (int round = 0; round < 25; ++round) {
      std::vector<DimSlice> dims;
      for (const std::uint64_t size : tensor_->shape()) {
        const auto bound = [&] { return below(static_cast<unsigned>(size)); };
        const std::int64_t step = below(2) == 0 ? 1 + below(5) : -1 - below(5);
        switch (below(4)) {
          case 0:
            dims.push_back(DimSlice::all());
            break;
          case 1:
            dims.push_back(DimSlice::range(std::nullopt, std::nullopt, step));
            break;
          case 2:
            dims.push_back(DimSlice::range(bound(), std::nullopt, step));
            break;
          default:
            dims.push_back(DimSlice::range(bound(), bound(), step));
        }
      }
      (void)reads_of(Slice(dims));
      // In memory nothing is read, and the bytes are the same.
      const std::string bytes = one_tensor("U8", shape, 1052672);
      const File file = File::from_memory(test::bytes_of(bytes), nullptr).value();
      EXPECT_TRUE(data_of(tensor(file, "t").read(Slice(dims)).value()) == data_of(tensor_->read(Slice(dims)).value()));
    }
  }
}

}  // namespace
}  // namespace safetensors
