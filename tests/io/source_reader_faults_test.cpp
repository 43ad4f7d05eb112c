// Failures of the reads of a SourceReader, seen through a ReadPlan. This program replaces pread() by a function that
// fails at the call that the test chooses, and counts the bytes that the others deliver.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace {

// Which calls of pread() fail. The first `after` calls of a kind succeed. The next `failures` calls fail with
// error_number.
struct Orders {
  std::atomic<bool> direct{false};  // the kind: calls with O_DIRECT, or calls without
  std::atomic<int> after{0}, failures{0}, error_number{0};
  std::atomic<int> reads{0};  // calls of this kind since order()
} orders;

std::atomic<std::uint64_t> delivered[2];  // bytes that pread() returned; the second: with O_DIRECT

}  // namespace

extern "C" ssize_t pread(int descriptor, void* memory, std::size_t size, off_t offset) {
  const bool direct = (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
  if (direct == orders.direct) {
    const int before = orders.reads++;
    if (before >= orders.after && before < orders.after + orders.failures) {
      errno = orders.error_number;
      return -1;
    }
  }
  const iovec piece{memory, size};
  const ssize_t count = ::preadv(descriptor, &piece, 1, offset);  // preadv() is not replaced
  if (count > 0) delivered[direct ? 1 : 0] += static_cast<std::uint64_t>(count);
  return count;
}

namespace safetensors {
namespace {

using namespace test;

class SourceFaults : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 3'000'017;

  void SetUp() override {
    put(path, file_of({{.name = "t", .dtype = Dtype::U8, .shape = {kBytes}, .bytes = bytes}}, 0));
    const Result<File> file = File::open(path);
    ASSERT_TRUE(succeeds(file));
    ASSERT_TRUE(succeeds(plan.add(tensor(*file, "t"))));
    if (!reads_directly(path)) GTEST_SKIP() << "this file system has no direct reads";
  }
  void TearDown() override { order(false, 0, 0, 0); }

  static void order(bool direct, int after, int failures, int error_number) {
    orders.direct = direct, orders.after = after, orders.failures = failures, orders.error_number = error_number;
    orders.reads = 0;
  }
  // One thread reads the chunks in the order of the file.
  [[nodiscard]] Result<ReadResult> read_through_cache() const {
    const ChunkBytes chunks(256 << 10);
    return plan.execute({.threads = 1, .cache = Cache::fill});
  }
  [[nodiscard]] Result<ReadResult> read_directly() const {
    const ChunkBytes chunks(256 << 10);
    const AssumeUncached uncached;
    return plan.execute({.threads = 1, .cache = Cache::keep});
  }

  const std::string bytes = pattern(kBytes);
  const TemporaryDirectory directory;
  const std::string path = directory / "t.safetensors";
  ReadPlan plan;
};

TEST_F(SourceFaults, RepeatInterruptedReads) {
  for (const bool direct : {false, true}) {
    order(direct, 2, 5, EINTR);
    const Result<ReadResult> result = direct ? read_directly() : read_through_cache();
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(data_of(result->arrays[0]) == bytes);
    EXPECT_GT(orders.reads, 7);
    EXPECT_EQ(result->report.bytes_buffered == 0, direct);
    EXPECT_EQ(result->report.bytes_direct != 0, direct);
  }
}

TEST_F(SourceFaults, FallBackToCacheIfRefused) {
  for (const auto& [error_number, said] :
       {std::pair(EINVAL, "invalid argument"), std::pair(EOPNOTSUPP, "not supported by this file system")}) {
    for (const int after : {0, 1, 4}) {
      order(true, after, 1'000'000, error_number);
      const Result<ReadResult> result = read_directly();
      ASSERT_TRUE(succeeds(result));
      EXPECT_TRUE(data_of(result->arrays[0]) == bytes);
      EXPECT_EQ(orders.reads, after + 1);  // no direct read after the refusal
      const ReadReport& report = result->report;
      EXPECT_EQ(report.bytes_direct != 0, after != 0);
      EXPECT_GT(report.bytes_buffered, kBytes / 4);
      EXPECT_EQ(std::ranges::count(report.fallbacks, path + " is read through the page cache: reading past it is " +
                                                         "refused (" + said + ")"),
                1);
    }
  }
}

TEST(ReportedBytes, AreThoseThatTheSystemDelivered) {
  const TemporaryDirectory directory;
  const std::string path = directory / "t.safetensors";
  constexpr std::uint64_t kRows = 2000;
  std::vector<PlannedTensor> tensors = tensors_of({3000, 500, 3000, 500, 3000});
  tensors.push_back({.name = "t", .dtype = Dtype::U8, .shape = {kRows, 2048}, .bytes = pattern(kRows * 2048)});
  put(path, file_of(tensors, 0));
  for (const auto& [cache, uncached] :
       {std::pair(Cache::automatic, false), {Cache::keep, false}, {Cache::fill, false}, {Cache::keep, true}}) {
    const auto empty = uncached ? std::make_unique<AssumeUncached>() : nullptr;
    for (const char* slice : {"10:500", ":,8:16", ":,:1024", ":,:1900", "::-1,:1024"}) {
      const Result<File> file = File::open(path);
      ASSERT_TRUE(succeeds(file));
      ReadPlan plan;
      for (const char* name : {"t0", "t2", "t4"}) ASSERT_TRUE(succeeds(plan.add(tensor(*file, name))));
      ASSERT_TRUE(succeeds(plan.add(tensor(*file, "t"), Slice(slice))));
      for (std::atomic<std::uint64_t>& count : delivered) count = 0;
      const ChunkBytes chunks(300 << 10);
      const Result<ReadResult> result = plan.execute({.threads = 3, .cache = cache});
      ASSERT_TRUE(succeeds(result));
      const ReadReport& report = result->report;
      EXPECT_EQ(report.bytes_buffered, delivered[0]) << slice;
      EXPECT_EQ(report.bytes_direct, delivered[1]) << slice;
      EXPECT_GE(report.bytes_buffered + report.bytes_direct + report.bytes_mapped, plan.nbytes() + 1000) << slice;
    }
  }
}

TEST_F(SourceFaults, ReportBrokenDisk) {
  order(true, 3, 1'000'000, EIO);
  const Error error = error_of(read_directly());
  EXPECT_EQ(error.code, Errc::read_failed);
  EXPECT_EQ(error.os_error, EIO);
  EXPECT_EQ(error.path, path);
  EXPECT_GT(error.offset, 4096U);
  EXPECT_NE(error.message.find("tensor `t`: cannot read "), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("at byte " + std::to_string(error.offset) + ": input/output error"), std::string::npos)
      << error.message;
  EXPECT_EQ(orders.reads, 4);
}

}  // namespace
}  // namespace safetensors
