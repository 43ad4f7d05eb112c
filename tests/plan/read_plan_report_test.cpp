// The reports of a plan: how it read, its progress, and that it read no more than necessary.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include <bit>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <thread>
#include <tuple>

#include "support/plan_support.h"
#include "support/plan_tuning.h"
#include "support/sanitizers.h"

namespace safetensors {
namespace {

using namespace test;

std::vector<PlannedTensor> one(std::uint64_t rows, std::uint64_t columns) {
  return {{.name = "t", .dtype = Dtype::U8, .shape = {rows, columns}, .bytes = pattern(rows * columns)}};
}

using Sentences = std::vector<std::string>;

Sentences refused(const std::string& path) {
  return {path + " is read through the page cache: reading past it is refused (invalid argument)"};
}

// From now on this process is refused system calls of a number: all, or those with one of bits in their third argument.
// For a child; it ends with kNoFilter where that cannot be had.
constexpr int kNoFilter = 77;
void refuse(std::uint32_t call, int error, std::uint32_t bits = 0) {
  constexpr std::uint32_t kLowHalf = std::endian::native == std::endian::little ? 0 : 4;
  const std::uint32_t answer = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2]) + kLowHalf),
                        BPF_JUMP(BPF_JMP | (bits == 0 ? BPF_JGE : BPF_JSET) | BPF_K, bits, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, answer),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{std::size(code), code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    ::_exit(kNoFilter);
}

class PlanCaching : public testing::Test {
 protected:
  // Writes and opens a file of one tensor of about 5 MiB.
  void use(const std::string& where) {
    path = where;
    put(path, bytes);
    Result<File> file = File::open(path);
    ASSERT_TRUE(succeeds(file));
    plan = ReadPlan();
    ASSERT_TRUE(succeeds(plan.add(tensor(*file, "t"))));
  }
  void expect_direct(const ReadReport& report) const {
    EXPECT_GE(report.bytes_direct, kBytes);
    EXPECT_LE(report.bytes_direct, kBytes + 2 * std::uint64_t{4096} * report.reads);
    EXPECT_EQ(report.bytes_buffered, 0U);
    EXPECT_EQ(report.fallbacks, Sentences{});
  }

  static constexpr std::uint64_t kBytes = 1000 * 5003;
  const std::string bytes = file_of(one(1000, 5003), 0);
  const TemporaryDirectory directory;
  std::string path;
  ReadPlan plan;
};

TEST_F(PlanCaching, ReadsCachedFileFromCache) {
  use(directory / "t.safetensors");
  for (const Cache cache : {Cache::keep, Cache::fill}) {
    const test::ChunkBytes chunks(1 << 20);
    const Result<ReadResult> result = plan.execute({.threads = 2, .cache = cache});
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(data_of(result->arrays[0]) == pattern(kBytes));
    const ReadReport& report = result->report;
    EXPECT_EQ(report.bytes, kBytes);
    EXPECT_EQ(report.bytes_buffered, kBytes);
    EXPECT_EQ(report.bytes_direct, 0U);
    EXPECT_EQ(report.bytes_mapped, 0U);
    EXPECT_EQ(report.cache, cache);
    EXPECT_EQ(report.reads, 5U);
    EXPECT_EQ(report.threads, 2U);
    EXPECT_EQ(report.fallbacks, Sentences{});
  }
}

TEST_F(PlanCaching, ReadsUncachedFilePastCache) {
  use(directory / "t.safetensors");
  if (!reads_directly(path)) GTEST_SKIP() << "this file system does not read past its cache";
  if (!make_cold(path)) GTEST_SKIP() << "this file system keeps its files in memory";
  for (int again = 0; again < 2; ++again) {
    const Result<ReadResult> result = plan.execute({.threads = 3, .cache = Cache::keep});
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(data_of(result->arrays[0]) == pattern(kBytes));
    expect_direct(result->report);
  }
}

TEST_F(PlanCaching, ReadsUncachedFileThroughCacheIfItFits) {
  use(directory / "t.safetensors");
  if (!reads_directly(path)) GTEST_SKIP() << "this file system does not read past its cache";
  if (!make_cold(path)) GTEST_SKIP() << "this file system keeps its files in memory";
  const Result<ReadResult> result = plan.execute({.threads = 3});
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(data_of(result->arrays[0]) == pattern(kBytes));
  if (result->report.cache == Cache::keep) GTEST_SKIP() << "10 MiB do not fit into the memory of this machine";
  EXPECT_EQ(result->report.cache, Cache::fill);
  EXPECT_EQ(result->report.bytes_direct, 0U);
  EXPECT_EQ(result->report.bytes_buffered, kBytes);
}

// As before Linux 6.5: then single bytes are tried.
TEST_F(PlanCaching, ReadsPastCacheWithoutCachestat) {
  use(directory / "t.safetensors");
  if (!reads_directly(path)) GTEST_SKIP() << "this file system does not read past its cache";
  if (!make_cold(path)) GTEST_SKIP() << "this file system keeps its files in memory";
  const int status = in_child([&] {
    constexpr std::uint32_t kCachestat = 451;
    refuse(kCachestat, ENOSYS);
    return test::holds_once([&] {
      if (!make_cold(path)) return false;
      const Result<ReadResult> result = plan.execute({.threads = 1, .cache = Cache::keep});
      return result && result->report.bytes_direct > kBytes / 2;  // trying may read ahead a little
    });
  });
  if (status == kNoFilter) GTEST_SKIP() << "no system calls can be refused here";
  EXPECT_EQ(status, 0);
}

TEST_F(PlanCaching, ReportsFallbackToCache) {
  use(directory / "t.safetensors");
  if (!reads_directly(path)) GTEST_SKIP() << "this file system does not read past its cache";
  const int status = in_child([&] {
    refuse(SYS_openat, EINVAL, O_DIRECT);
    if (reads_directly(path)) return false;
    const test::AssumeUncached uncached;
    const Result<ReadResult> result = plan.execute({.threads = 3, .cache = Cache::keep});
    if (!result || data_of(result->arrays[0]) != pattern(kBytes)) return false;
    const ReadReport& report = result->report;
    return report.bytes_direct == 0 && report.bytes_buffered == kBytes && report.fallbacks == refused(path);
  });
  if (status == kNoFilter) GTEST_SKIP() << "no system calls can be refused here";
  EXPECT_EQ(status, 0);
}

TEST_F(PlanCaching, ReadsTmpfsUnderAnyPolicy) {
  char name[] = "/dev/shm/safetensors-test-XXXXXX";
  const int made = ::mkstemp(name);
  struct statfs system = {};
  if (made < 0 || ::fstatfs(made, &system) != 0 || system.f_type != 0x01021994) {
    if (made >= 0) ::close(made), ::unlink(name);
    GTEST_SKIP() << "there is no tmpfs here";
  }
  ::close(made);
  use(name);
  for (const Cache cache : {Cache::keep, Cache::fill, Cache::automatic}) {
    const Result<ReadResult> result = plan.execute({.cache = cache});
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(data_of(result->arrays[0]) == pattern(kBytes));
    EXPECT_EQ(result->report.bytes_buffered, kBytes);
    EXPECT_EQ(result->report.fallbacks, Sentences{});
  }
  const test::AssumeUncached uncached;
  const Result<ReadResult> result = plan.execute({.cache = Cache::keep});
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(data_of(result->arrays[0]) == pattern(kBytes));
  EXPECT_EQ(result->report.bytes_direct, 0u);
  EXPECT_EQ(result->report.fallbacks,
            Sentences{std::string(name) + " is read through the page cache: reading past it is refused (not "
                                          "supported by this file system)"});
  ::unlink(name);
}

TEST(PlanProgress, GrowsToTotalInCallingThread) {
  const Result<File> file = File::from_source(std::make_shared<ScriptedSource>(file_of(one(500, 1000), 0)));
  ASSERT_TRUE(succeeds(file));
  ReadPlan plan;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(succeeds(plan.add(tensor(*file, "t"))));
  for (const unsigned threads : {1U, 2U, 9U}) {
    std::uint64_t last = 0;
    std::size_t calls = 0;
    const auto self = std::this_thread::get_id();
    const test::ChunkBytes chunks(10'000);
    const Result<ReadResult> result =
        plan.execute({.threads = threads, .progress = [&](std::uint64_t done, std::uint64_t total) {
                        EXPECT_EQ(std::this_thread::get_id(), self);
                        EXPECT_EQ(total, 1'500'000U);
                        EXPECT_GE(done, last);
                        last = done;
                        ++calls;
                        return true;
                      }});
    ASSERT_TRUE(succeeds(result));
    EXPECT_EQ(last, 1'500'000U);
    EXPECT_GE(calls, threads == 1 ? 150U : 1U);
  }
}

TEST(PlanProgress, CancelsOnFalse) {
  const auto source = std::make_shared<ScriptedSource>(file_of(one(500, 1000), 0));
  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(*file, "t"))));
  (void)source->reads();
  int calls = 0;
  const test::ChunkBytes chunks(100'032);
  const Error error =
      error_of(plan.execute({.threads = 1, .progress = [&](std::uint64_t, std::uint64_t) { return ++calls < 2; }}));
  EXPECT_EQ(error.code, Errc::cancelled);
  // The first piece ends on a page of the file.
  EXPECT_EQ(error.message, "cancelled after 196608 of 500000 bytes");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(source->reads().size(), 2U);
}

// Bytes asked of a source for a part of a tensor, over those needed.
double asked(std::uint64_t rows, std::uint64_t columns, const Slice& slice, std::uint64_t chunk) {
  const auto source = std::make_shared<ScriptedSource>(file_of(one(rows, columns), 0));
  const Result<File> file = File::from_source(source);
  EXPECT_TRUE(succeeds(file));
  ReadPlan plan;
  EXPECT_TRUE(succeeds(plan.add(tensor(*file, "t"), slice)));
  (void)source->reads();
  const test::ChunkBytes chunks(chunk);
  EXPECT_TRUE(succeeds(plan.execute({.threads = 2})));
  std::uint64_t bytes = 0;
  for (const format::ByteRun& read : source->reads()) bytes += read.size;
  return static_cast<double>(bytes) / static_cast<double>(plan.nbytes());
}

TEST(ReadAmplification, StaysSmallForShards) {
  for (const std::uint64_t chunk : {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{100'000}}) {
    for (const std::uint64_t world : {std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{8}}) {
      for (const std::uint64_t rank : {std::uint64_t{0}, world - 1}) {
        EXPECT_LE(asked(97, 10'007, Slice::shard(0, rank, world), chunk), 1.05);
        EXPECT_LE(asked(7, 66'000 * world, Slice::shard(1, rank, world), chunk), 1.05);
        EXPECT_LE(asked(300, 600 * world, Slice::shard(1, rank, world), chunk), 1.25);
        EXPECT_LE(asked(50, 20'000 * world, Slice::shard(1, rank, world), chunk), 1.25);
      }
    }
    EXPECT_LE(asked(900, 700, {DimSlice::all(), DimSlice::range(30, {})}, chunk), 1.25);
    EXPECT_LE(asked(900, 1100, {DimSlice::all(), DimSlice::range({}, -101)}, chunk), 1.25);
  }
}

std::uint64_t from_source(const ReadReport& report) {
  EXPECT_EQ(report.bytes_direct, 0U);
  EXPECT_EQ(report.bytes_mapped, 0U);
  return report.bytes_buffered;
}

TEST(ReportedBytes, AreThoseThatTheSourceDelivered) {
  const std::uint64_t kib = 1024;
  const auto source = std::make_shared<ScriptedSource>(
      file_of({{.name = "t", .dtype = Dtype::U8, .shape = {300, 2 * kib}, .bytes = pattern(300 * 2 * kib)},
               {.name = "wide", .dtype = Dtype::U8, .shape = {5, 200 * kib}, .bytes = pattern(1000 * kib)}},
              0));
  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  const std::uint64_t tiny_span = 299 * 2 * kib + 16;  // one read, from the first piece to the last one
  for (const auto& [name, slice, expected] :
       {std::tuple("t", "10:200", 190 * 2 * kib), std::tuple("t", ":,100:116", tiny_span),
        std::tuple("t", ":,:1024", 300 * kib), std::tuple("t", ":,:1700", 299 * 2 * kib + 1700),
        std::tuple("wide", ":,:102400", 500 * kib), std::tuple("wide", "", 1000 * kib)}) {
    for (const std::size_t most : {std::size_t{1000}, ~std::size_t{0}}) {
      ReadPlan plan;
      ASSERT_TRUE(succeeds(plan.add(tensor(*file, name), Slice(slice))));
      source->most = most;
      (void)source->delivered();
      const Result<ReadResult> result = plan.execute({.threads = 2});
      ASSERT_TRUE(succeeds(result));
      EXPECT_EQ(from_source(result->report), source->delivered()) << name << slice;
      EXPECT_EQ(from_source(result->report), expected) << name << slice;
    }
  }
}

TEST(ReportedBytes, HaveTheGapsOfABatch) {
  const auto source = std::make_shared<ScriptedSource>(file_of(tensors_of({4000, 500, 4000, 500, 4000}), 0));
  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  ReadPlan plan;
  for (const char* name : {"t0", "t2", "t4"}) ASSERT_TRUE(succeeds(plan.add(tensor(*file, name))));
  (void)source->delivered();
  const Result<ReadResult> result = plan.execute();
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(source->delivered(), 13'000U);
  EXPECT_EQ(from_source(result->report), 13'000U);
  EXPECT_EQ(result->report.bytes, 12'000U);
}

// The read of 500,000 bytes gets 300 calls of 1000 bytes. Then the file ends.
TEST(ReportedBytes, HaveThoseBeforeAnError) {
  const auto source = std::make_shared<ScriptedSource>(file_of(one(500, 1000), 0));
  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(succeeds(file));
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(*file, "t"))));
  (void)source->delivered();
  source->most = 1000;
  source->ends_at = 4096 + 300'000;
  Result<Stream> stream = plan.stream({.threads = 1});
  ASSERT_TRUE(succeeds(stream));
  EXPECT_EQ(error_of(stream->next()).code, Errc::file_truncated);
  const Result<ReadReport> report = stream->report();
  ASSERT_TRUE(succeeds(report));
  EXPECT_EQ(source->delivered(), 300'000U);
  EXPECT_EQ(from_source(*report), 300'000U);
}

// In KiB.
std::uint64_t memory_now(const std::string& what) {
  std::ifstream status("/proc/self/status");
  std::uint64_t kib = 0;
  for (std::string word; status >> word;)
    if (word == what) status >> kib;
  return kib;
}

TEST(Memory, ExceedsResultsByLittle) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;
  for (const bool staged : {false, true}) {
    const int status = in_child([&] {
      const Result<File> file = File::from_source(
          std::make_shared<FilledSource>(one_header("F32", "[64,1048576]", kBytes), kBytes, std::byte{7}));
      ReadPlan plan;
      if (!file || !plan.add(file->tensor("t").value(), {}, {}, staged ? Dtype::BF16 : Dtype::F32)) return false;
      const std::uint64_t before = memory_now("VmRSS:");
      const test::ChunkBytes chunks(1 << 20);
      const Result<ReadResult> result = plan.execute({.threads = 4});
      if (!result || result->report.bytes != kBytes / (staged ? 2 : 1)) return false;
      const std::uint64_t needed = (result->report.bytes >> 10) * 102 / 100 + (staged ? 4 << 10 : 0);
      const std::uint64_t used = memory_now("VmHWM:") - before;
      if (used > needed + 2048) std::fprintf(stderr, "%zu KiB\n", static_cast<std::size_t>(used));
      return used <= needed + 2048 && used >= result->report.bytes >> 10;
    });
    EXPECT_EQ(status, 0) << (staged ? "cast" : "as it is");
  }
}

}  // namespace
}  // namespace safetensors
