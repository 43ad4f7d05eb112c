// Failures of reads past the page cache. This program has its own pread(), which fails when the test says so.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "support/plan_support.h"

namespace {

// Of reads past the cache, or else of all others, the first `after` are done, and the next `failures` say `number`.
struct Orders {
  std::atomic<bool> direct{false};
  std::atomic<int> after{0}, failures{0}, number{0};
  std::atomic<int> reads{0};  // of that kind, since they were given
} orders;

}  // namespace

extern "C" ssize_t pread(int descriptor, void* memory, std::size_t size, off_t offset) {
  const bool direct = (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
  if (direct == orders.direct) {
    const int before = orders.reads++;
    if (before >= orders.after && before < orders.after + orders.failures) {
      errno = orders.number;
      return -1;
    }
  }
  const iovec piece{memory, size};
  return ::preadv(descriptor, &piece, 1, offset);  // the same system call but for its form
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
    if (!reads_directly(path)) GTEST_SKIP() << "this file system does not read past its cache";
  }
  void TearDown() override { order(false, 0, 0, 0); }

  static void order(bool direct, int after, int failures, int number) {
    orders.direct = direct, orders.after = after, orders.failures = failures, orders.number = number;
    orders.reads = 0;
  }
  // One thread reads a piece at a time, in order.
  [[nodiscard]] Result<ReadResult> read(Cache cache) const {
    return plan.execute({.threads = 1, .chunk_bytes = 256 << 10, .cache = cache});
  }

  const std::string bytes = pattern(kBytes);
  const TemporaryDirectory directory;
  const std::string path = directory / "t.safetensors";
  ReadPlan plan;
};

TEST_F(SourceFaults, InterruptedReadsAreBegunAgain) {
  for (const bool direct : {false, true}) {
    order(direct, 2, 5, EINTR);
    const Result<ReadResult> result = read(direct ? Cache::bypass : Cache::fill);
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(data_of(result->arrays[0]) == bytes);
    EXPECT_GT(orders.reads, 7);
    EXPECT_EQ(result->report.bytes_buffered == 0, direct);
    EXPECT_EQ(result->report.bytes_direct != 0, direct);
  }
}

TEST_F(SourceFaults, WhereReadsPastTheCacheAreRefusedTheRestComesThroughIt) {
  for (const auto& [number, said] :
       {std::pair(EINVAL, "invalid argument"), std::pair(EOPNOTSUPP, "not supported by this file system")}) {
    for (const int after : {0, 1, 4}) {
      order(true, after, 1'000'000, number);
      const Result<ReadResult> result = read(Cache::bypass);
      ASSERT_TRUE(succeeds(result));
      EXPECT_TRUE(data_of(result->arrays[0]) == bytes);
      EXPECT_EQ(orders.reads, after + 1);  // who was refused does not ask again
      const ReadReport& report = result->report;
      EXPECT_EQ(report.bytes_direct != 0, after != 0);
      EXPECT_GT(report.bytes_buffered, kBytes / 4);
      EXPECT_EQ(std::ranges::count(report.fallbacks, path + " is read through the page cache: reading past it is " +
                                                         "refused (" + said + ")"),
                1);
    }
  }
}

TEST_F(SourceFaults, ABrokenDiskIsTheErrorOfThePlan) {
  order(true, 3, 1'000'000, EIO);
  const Error error = error_of(read(Cache::bypass));
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
