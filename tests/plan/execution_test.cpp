// Threads that take runs of consecutive jobs. Whether a plan has runs depends on the page cache, so these tests choose
// the size of the runs themselves.
#include "plan/execution_state.h"

#include <gtest/gtest.h>
#include <safetensors/read_plan.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/item.h"
#include "support/file_support.h"
#include "support/plan_tuning.h"

namespace safetensors::plan {
namespace {

constexpr std::uint64_t kTensorBytes = std::uint64_t{10} << 20;
constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::uint64_t kJobs = kTensorBytes / kChunk;

// A file with one tensor, whose bytes tell their offset. Reads that contain an offset of `broken` fail.
class BrokenSource final : public Source {
 public:
  BrokenSource()
      : header_(test::file_bytes(R"({"t":{"dtype":"U8","shape":[)" + std::to_string(kTensorBytes) +
                                     R"(],"data_offsets":[0,)" + std::to_string(kTensorBytes) + "]}}",
                                 "")) {}
  Result<std::uint64_t> size() const noexcept override { return header_.size() + kTensorBytes; }
  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    ++reads;
    for (const std::uint64_t at : broken) {
      if (at < offset || at - offset >= destination.size()) continue;
      Error error;
      error.code = Errc::read_failed;
      error.offset = at;
      return error;
    }
    for (std::size_t i = 0; i < destination.size(); ++i) destination[i] = byte_at(offset + i);
    return destination.size();
  }
  [[nodiscard]] std::byte byte_at(std::uint64_t offset) const noexcept {
    if (offset < header_.size()) return static_cast<std::byte>(header_[static_cast<std::size_t>(offset)]);
    return static_cast<std::byte>((offset * 2654435761U) >> 13);
  }
  [[nodiscard]] std::uint64_t data_start() const noexcept { return header_.size(); }

  std::vector<std::uint64_t> broken;  // offsets in the file
  mutable std::atomic<std::uint64_t> reads{0};

 private:
  const std::string header_;
};

// The parameter: number of threads.
class ExecutionRuns : public testing::TestWithParam<unsigned> {
 protected:
  // Reads the tensor into `bytes`, in runs of this size.
  Status read(std::uint64_t run_bytes) {
    const Result<File> file = File::from_source(source);
    if (!file) return file.error();
    bytes.assign(kTensorBytes, std::byte{0});
    Result<Item> item = make_item(test::tensor(*file, "t"), {}, {.bytes = bytes}, {});
    if (!item) return item.error();
    const std::vector<Item> items = {*std::move(item)};
    ReadOptions options;
    options.threads = GetParam();
    options.progress = progress;
    const test::ChunkBytes chunks(kChunk);
    ExecutionState run(items, options, false);
    if (Status status = run.open_devices(); !status) return status;
    if (Status status = run.place(run.order); !status) return status;
    source->reads = 0;
    return run.execute(run_bytes, prepare);
  }

  const std::shared_ptr<BrokenSource> source = std::make_shared<BrokenSource>();
  std::vector<std::byte> bytes;
  std::function<bool(std::uint64_t, std::uint64_t)> progress;
  std::function<Status()> prepare = []() -> Status { return {}; };
};

constexpr std::uint64_t kRuns[] = {0, 1, kChunk, 3 * kChunk + 1, kTensorBytes / 4, ~std::uint64_t{0}};

TEST_P(ExecutionRuns, ReadEachByteOnce) {
  for (const std::uint64_t run_bytes : kRuns) {
    ASSERT_TRUE(test::succeeds(read(run_bytes)));
    EXPECT_EQ(source->reads, kJobs) << run_bytes;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < kTensorBytes; ++i) wrong += bytes[i] != source->byte_at(source->data_start() + i);
    EXPECT_EQ(wrong, 0U) << run_bytes;
  }
}

TEST_P(ExecutionRuns, ReturnErrorOfFirstJob) {
  for (const std::uint64_t first :
       std::initializer_list<std::uint64_t>{0, 7 * kChunk, kTensorBytes / 2, kTensorBytes - 1}) {
    source->broken = {source->data_start() + kTensorBytes - 1, source->data_start() + first};
    for (const std::uint64_t run_bytes : kRuns) {
      const Status status = read(run_bytes);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Errc::read_failed);
      EXPECT_EQ(status.error().offset, source->broken[1]) << run_bytes;
    }
  }
}

// A thread does not go on with its run. With one thread, nothing else is read.
TEST_P(ExecutionRuns, StopAtFirstError) {
  source->broken = {source->data_start()};
  for (const std::uint64_t run_bytes : kRuns) {
    ASSERT_FALSE(read(run_bytes));
    if (GetParam() == 1) {
      EXPECT_EQ(source->reads, 1U) << run_bytes;
    }
  }
}

// Other threads may do all jobs. Then the progress is told only once, at the end.
TEST_P(ExecutionRuns, StopAfterJobInWhichCallerCancels) {
  const int last = GetParam() == 1 ? 2 : 1;
  for (const std::uint64_t run_bytes : kRuns) {
    int calls = 0;
    progress = [&calls, last](std::uint64_t, std::uint64_t) { return ++calls < last; };
    const Status status = read(run_bytes);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::cancelled) << run_bytes;
    EXPECT_EQ(calls, last);
    if (GetParam() == 1) {
      EXPECT_EQ(source->reads, 2U) << run_bytes;
    }
  }
}

// The caller's error comes before those of the files, whatever the other threads find meanwhile.
TEST_P(ExecutionRuns, ReturnErrorOfPreparation) {
  source->broken = {source->data_start()};
  prepare = []() -> Status {
    Error error;
    error.code = Errc::cancelled;
    return error;
  };
  for (const std::uint64_t run_bytes : kRuns) {
    const Status status = read(run_bytes);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::cancelled) << run_bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ExecutionRuns, testing::Values(1U, 2U, 7U));

}  // namespace
}  // namespace safetensors::plan
