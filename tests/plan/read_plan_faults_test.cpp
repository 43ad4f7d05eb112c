// Failures while a plan is read. The plan ends promptly, its error names the tensor, the path and the offset, and
// nothing is left behind.
#include <gtest/gtest.h>

#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <algorithm>

#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace safetensors {
namespace {

using namespace test;

// The form of the requests for about 2 MB of data: one range, many small tensors, or one of two kinds of slices.
enum class Way { range, batch, pieces, strided };

class PlanFaults : public testing::TestWithParam<Way> {
 protected:
  // About 2 MB of data; asked for in the way of the parameter.
  void make() {
    if (GetParam() == Way::batch)
      tensors_ = tensors_of(std::vector<std::size_t>(200, 10'003));
    else
      tensors_ = {{.name = "t0", .dtype = Dtype::U8, .shape = {1000, 2003}, .bytes = pattern(2'003'000)}};
    bytes_ = file_of(tensors_, 0);
    size_ = 0;
    for (const PlannedTensor& planned : tensors_) size_ += planned.bytes.size();
    start_ = bytes_.size() - size_;
  }
  void add_all(const File& file) {
    plan_ = ReadPlan();
    for (const PlannedTensor& planned : tensors_) {
      const Tensor from = tensor(file, planned.name);
      if (GetParam() == Way::pieces) {
        const Slice columns{DimSlice::all(), DimSlice::range(0, 1900)};
        ASSERT_TRUE(succeeds(plan_.add(from, columns)));
      } else if (GetParam() == Way::strided) {
        memory_.resize(2004 * 1000);
        const std::vector<std::uint64_t> strides{2004, 1};
        ASSERT_TRUE(succeeds(plan_.add(from, {}, {memory_, strides})));
      } else {
        ASSERT_TRUE(succeeds(plan_.add(from)));
      }
    }
  }
  // The tensor that holds the byte at this offset of the file.
  [[nodiscard]] std::string name_at(std::uint64_t offset) const {
    return GetParam() == Way::batch ? "t" + std::to_string((offset - start_) / 10'003) : "t0";
  }
  void expect_result(const ReadResult& result) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      std::string want = tensors_[i].bytes;
      if (GetParam() == Way::pieces) {
        want.clear();
        for (std::size_t row = 0; row < 1000; ++row) want += tensors_[i].bytes.substr(row * 2003, 1900);
      }
      if (GetParam() != Way::strided) {
        EXPECT_TRUE(data_of(result.arrays[i]) == want) << i;
        continue;
      }
      for (std::size_t row = 0; row < 1000; ++row)
        EXPECT_EQ(std::memcmp(memory_.data() + row * 2004, want.data() + row * 2003, 2003), 0) << row;
    }
  }

  std::vector<PlannedTensor> tensors_;
  std::string bytes_;
  std::size_t size_ = 0;   // of the data,
  std::size_t start_ = 0;  // which begins here
  std::vector<std::byte> memory_;
  ReadPlan plan_;
};

TEST_P(PlanFaults, ContinuesShortReads) {
  make();
  const auto source = std::make_shared<ScriptedSource>(bytes_);
  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  add_all(*file);
  for (const std::size_t most : {std::size_t{997}, std::size_t{4096}, std::size_t{50'001}}) {
    source->most = most;
    const test::ChunkBytes chunks(100'000);
    const Result<ReadResult> result = plan_.execute({.threads = 3});
    ASSERT_TRUE(succeeds(result));
    expect_result(*result);
    EXPECT_GE(result->report.reads, size_ * 9 / 10 / most);
  }
}

TEST_P(PlanFaults, StopsAtErrorAndNamesTensor) {
  make();
  const auto source = std::make_shared<ScriptedSource>(bytes_);
  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  add_all(*file);
  const std::uint64_t bad = start_ + size_ / 2;
  source->fail_from = bad;
  for (const unsigned threads : {1U, 4U}) {
    (void)source->reads();
    const test::ChunkBytes chunks(20'000);
    const Error error = error_of(plan_.execute({.threads = threads}));
    EXPECT_EQ(error.code, Errc::read_failed);
    EXPECT_EQ(error.os_error, 5);
    const std::vector<format::ByteRun> reads = source->reads();
    std::uint64_t failed = 0;  // reads
    std::uint64_t first = ~std::uint64_t{0};
    for (const format::ByteRun& read : reads) {
      if (read.offset + read.size <= bad) continue;
      ++failed;
      first = std::min(first, read.offset);
    }
    EXPECT_LE(failed, threads);
    EXPECT_EQ(error.offset, first);
    EXPECT_EQ(error.message, "tensor `" + name_at(first) + "`: no answer from the server");
  }
}

TEST_P(PlanFaults, DetectsTruncatedSource) {
  make();
  const auto source = std::make_shared<ScriptedSource>(bytes_);
  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  add_all(*file);
  const std::uint64_t end = start_ + size_ / 2 + 11;
  source->ends_at = end;
  const test::ChunkBytes chunks(20'000);
  const Error error = error_of(plan_.execute({.threads = 4}));
  EXPECT_EQ(error.code, Errc::file_truncated);
  EXPECT_EQ(error.offset, end);
  EXPECT_EQ(error.message.substr(0, error.message.find(':')), "tensor `" + name_at(end) + "`");
  const std::string tail = "were asked for, it now ends at byte " + std::to_string(end);
  EXPECT_NE(error.message.find(tail), std::string::npos) << error.message;
}

TEST_P(PlanFaults, DetectsTruncatedFile) {
  make();
  const TemporaryDirectory directory;
  const std::string path = directory / "t.safetensors";
  const std::uint64_t last = start_ + size_;
  for (const auto& [cache, uncached] :
       {std::pair(Cache::automatic, false), {Cache::keep, true}, {Cache::fill, false}}) {
    const auto empty = uncached ? std::make_unique<test::AssumeUncached>() : nullptr;
    for (const std::uint64_t cut : {std::uint64_t{1}, last % 4096, last % 4096 + 4096, std::uint64_t{1'000'000}}) {
      put(path, bytes_);
      const Result<File> file = File::open(path, {.access = Access::read});
      ASSERT_TRUE(succeeds(file));
      add_all(*file);
      ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(last - cut)), 0);
      (void)make_cold(path);
      const bool wanted = GetParam() != Way::pieces || cut > 103;
      const test::ChunkBytes chunks(100'000);
      const Result<ReadResult> result = plan_.execute({.threads = 4, .cache = cache});
      if (!wanted) {
        EXPECT_TRUE(succeeds(result));
        continue;
      }
      const Error error = error_of(result);
      EXPECT_EQ(error.code, Errc::file_truncated);
      EXPECT_EQ(error.path, path);
      EXPECT_EQ(error.offset, last - cut);
      EXPECT_EQ(error.message.substr(0, error.message.find(':')), "tensor `" + name_at(last - cut) + "`");
      const std::string tail = "were asked for, it now ends at byte " + std::to_string(last - cut);
      EXPECT_NE(error.message.find(tail), std::string::npos) << error.message;
    }
  }
}

std::string name_of(const testing::TestParamInfo<Way>& way) {
  constexpr const char* kNames[] = {"range", "batch", "pieces", "strided"};
  return kNames[static_cast<std::size_t>(way.param)];
}

INSTANTIATE_TEST_SUITE_P(Ways, PlanFaults, testing::Values(Way::range, Way::batch, Way::pieces, Way::strided), name_of);

constexpr std::uint64_t kHugeHeader = 4088;

class HugeSource final : public ScriptedSource {
 public:
  using ScriptedSource::ScriptedSource;
  Result<std::uint64_t> size() const noexcept override { return 8 + kHugeHeader + (std::uint64_t{1} << 60); }
};

TEST(PlanError, PrecedesReadOfImpossibleSize) {
  std::string header =
      R"({"t":{"dtype":"F8_E5M2","shape":[1152921504606846976],"data_offsets":[0,1152921504606846976]}})";
  header.resize(kHugeHeader, ' ');
  const auto source = std::make_shared<HugeSource>(file_bytes(header, "abc"));
  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  (void)source->reads();
  const Tensor huge = tensor(*file, "t");
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(huge)));
  const Error alone = error_of(plan.execute());
  EXPECT_EQ(alone.code, Errc::out_of_memory);
  EXPECT_EQ(alone.message, "tensor `t`: cannot allocate 1152921504606846976 bytes");
  Result<Stream> stream = plan.stream();
  ASSERT_TRUE(succeeds(stream));
  EXPECT_EQ(error_of(stream->next()).message, "tensor `t`: cannot allocate 1152921504606846976 bytes");
  ASSERT_TRUE(succeeds(plan.add(huge, {}, {}, Dtype::F64)));
  const Error second = error_of(plan.add(huge, {}, {}, Dtype::F64));
  EXPECT_EQ(second.code, Errc::size_overflow);
  EXPECT_EQ(second.message, "tensor `t`: the results of the plan would be larger than 2^64-1 bytes");
  EXPECT_EQ(plan.size(), 2U);
  EXPECT_EQ(plan.nbytes(), std::uint64_t{9} << 60);
  EXPECT_EQ(error_of(plan.execute()).code, Errc::out_of_memory);
  EXPECT_TRUE(source->reads().empty());
}

}  // namespace
}  // namespace safetensors
