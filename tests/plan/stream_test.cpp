// A Stream hands out a plan's items while others are read: each item once, within the budget, until an error or the
// end.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace safetensors {
namespace {

using namespace test;

using std::chrono::milliseconds;

constexpr std::size_t kSize = 100'000;

// Counts the bytes that reads ask for; while it is not open they wait.
class GatedSource final : public ScriptedSource {
 public:
  using ScriptedSource::ScriptedSource;

  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    {
      std::unique_lock lock(mutex_);
      begun_ += destination.size();
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
    }
    return ScriptedSource::read_at(offset, destination);
  }
  void open(bool value) {
    const std::lock_guard lock(mutex_);
    open_ = value;
    changed_.notify_all();
  }
  // Bytes that were asked for since the last call. Waits for at_least, and then until nothing more comes for a while.
  std::uint64_t begun(std::uint64_t at_least = 0) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return begun_ >= at_least; }))
        << begun_ << " of " << at_least << " bytes were asked for";
    for (std::uint64_t seen = ~begun_; seen != begun_;) {
      seen = begun_;
      changed_.wait_for(lock, std::chrono::milliseconds(30), [&] { return begun_ != seen; });
    }
    return std::exchange(begun_, 0);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::uint64_t begun_ = 0;
  bool open_ = true;
};

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

class StreamTest : public testing::Test {
 protected:
  void use(const std::vector<std::size_t>& sizes) {
    tensors = tensors_of(sizes);
    source = std::make_shared<GatedSource>(file_of(tensors, 0));
    Result<File> file = File::from_source(source);
    ASSERT_TRUE(succeeds(file));
    plan = ReadPlan();
    for (const PlannedTensor& planned : tensors) ASSERT_TRUE(succeeds(plan.add(tensor(*file, planned.name))));
    (void)source->begun();
    (void)source->reads();
  }
  void expect_item(const StreamItem& item) const {
    ASSERT_LT(item.index, tensors.size());
    EXPECT_TRUE(data_of(item.array) == tensors[item.index].bytes) << item.index;
  }
  // Takes all, each once; what is taken stays.
  void expect_all(Stream& stream) {
    std::map<std::size_t, StreamItem> taken;
    for (;;) {
      Result<std::optional<StreamItem>> next = stream.next();
      ASSERT_TRUE(succeeds(next));
      if (!*next) break;
      expect_item(**next);
      const std::size_t number = (**next).index;
      EXPECT_TRUE(taken.emplace(number, *std::move(*next)).second) << number;
    }
    EXPECT_EQ(taken.size(), tensors.size());
    for (const auto& [number, item] : taken) expect_item(item);
  }

  std::vector<PlannedTensor> tensors;
  std::shared_ptr<GatedSource> source;
  ReadPlan plan;
};

TEST_F(StreamTest, EndsAtOnceForEmptyPlan) {
  Result<Stream> stream = plan.stream();
  ASSERT_TRUE(succeeds(stream));
  for (int again = 0; again < 2; ++again) {
    const Result<std::optional<StreamItem>> next = stream->next();
    ASSERT_TRUE(succeeds(next));
    EXPECT_FALSE(next->has_value());
  }
  EXPECT_EQ(stream->report().value().bytes, 0U);
}

TEST_F(StreamTest, GivesEachItemOnceUnderAnyBudget) {
  use({0, 1, 100'000, 0, 65'536, 3, 2'500'000, 4096, 0, 500'000, 7, 0});
  for (const std::uint64_t budget : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{70'000},
                                     std::uint64_t{300'000}, std::uint64_t{1} << 40}) {
    for (const unsigned threads : {1U, 2U, 8U}) {
      SCOPED_TRACE(std::to_string(budget) + " bytes, " + std::to_string(threads) + " threads");
      const test::ChunkBytes chunks(50'000);
      Result<Stream> stream = plan.stream({.threads = threads, .memory_limit = budget});
      ASSERT_TRUE(succeeds(stream));
      expect_all(*stream);
    }
  }
}

TEST_F(StreamTest, ReadsNoMoreThanBudget) {
  use(std::vector<std::size_t>(40, kSize));
  for (const std::uint64_t budget : {std::uint64_t{100'000}, std::uint64_t{250'000}, std::uint64_t{1'000'000}}) {
    for (const unsigned threads : {1U, 8U}) {
      const test::ChunkBytes chunks(30'000);
      Result<Stream> stream = plan.stream({.threads = threads, .memory_limit = budget});
      ASSERT_TRUE(succeeds(stream));
      std::uint64_t untaken = source->begun(kSize);
      EXPECT_LE(untaken, std::max<std::uint64_t>(budget, kSize));
      for (int takes = 0; takes < 12; ++takes) {
        const Result<std::optional<StreamItem>> next = stream->next();
        ASSERT_TRUE(succeeds(next));
        expect_item(**next);
        untaken += source->begun(untaken < kSize ? kSize - untaken : 0);
        untaken -= kSize;
        EXPECT_LE(untaken, std::max<std::uint64_t>(budget, kSize)) << budget << " " << threads;
      }
    }
  }
}

// The memory that threads hold besides results counts, too.
TEST_F(StreamTest, KeepsSmallItemsWithinBudget) {
  use(std::vector<std::size_t>(600, 4096));
  constexpr std::uint64_t kBudget = 1 << 20;
  Result<Stream> stream = plan.stream({.threads = 4, .memory_limit = kBudget});
  ASSERT_TRUE(succeeds(stream));
  const std::uint64_t results = source->begun(4096);
  std::uint64_t largest = 0;
  for (const format::ByteRun& read : source->reads()) largest = std::max(largest, read.size);
  EXPECT_GT(largest, 4096U);  // or they were not read together
  EXPECT_LE(results + stream->report().value().threads * largest, kBudget);
  expect_all(*stream);
}

TEST_F(StreamTest, ReadsLargerItemAlone) {
  use({1000, 1000, 900'000, 1000, 1000, 800'000, 700'000, 1000});
  const test::ChunkBytes chunks(20'000);
  Result<Stream> stream = plan.stream({.threads = 8, .memory_limit = 100'000});
  ASSERT_TRUE(succeeds(stream));
  // Each of the three waits until all before it is taken, and what follows until it is taken.
  std::uint64_t begun = source->begun(2000);
  EXPECT_EQ(begun, 2000U);
  for (const std::uint64_t then :
       {2'000U, 902'000U, 904'000U, 904'000U, 1'704'000U, 2'404'000U, 2'405'000U, 2'405'000U}) {
    const Result<std::optional<StreamItem>> next = stream->next();
    ASSERT_TRUE(succeeds(next));
    expect_item(**next);
    begun += source->begun(then - begun);
    ASSERT_EQ(begun, then);
  }
}

TEST_F(StreamTest, LeavesNoThreadAndNoDescriptor) {
  const TemporaryDirectory directory;
  const std::string path = directory / "t.safetensors";
  put(path, file_of(tensors_of({3'000'000, 3'000'000, 100}), 0));
  const Result<File> file = File::open(path);
  ASSERT_TRUE(succeeds(file));
  ReadPlan some;
  for (const TensorInfo& info : file->header().tensors()) ASSERT_TRUE(succeeds(some.add(tensor(*file, info.name))));
  const std::size_t threads = entries("/proc/self/task");
  const std::size_t descriptors = entries("/proc/self/fd");
  for (int round = 0; round < 60; ++round) {
    const test::ChunkBytes chunks(10'000);
    const auto uncached = round % 2 == 0 ? std::make_unique<test::AssumeUncached>() : nullptr;
    Result<Stream> stream = some.stream({.threads = 8, .cache = Cache::keep});
    ASSERT_TRUE(succeeds(stream));
    for (int takes = 0; takes < round % 4; ++takes) ASSERT_TRUE(succeeds(stream->next()));
  }
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  // A thread that was joined may still be listed for a moment.
  for (int wait = 0; entries("/proc/self/task") != threads && wait < 1000; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(entries("/proc/self/task"), threads);
}

TEST_F(StreamTest, WaitsForReadInDestructor) {
  use(std::vector<std::size_t>(10, kSize));
  source->open(false);
  const test::ChunkBytes chunks(10'000);
  Result<Stream> stream = plan.stream({.threads = 4});
  ASSERT_TRUE(succeeds(stream));
  (void)source->begun(1);
  std::thread gate([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    source->open(true);
  });
  { const Stream gone = *std::move(stream); }
  gate.join();
  EXPECT_LE(source->begun(), 4 * 10'240U);  // of those that had just been taken up
}

TEST_F(StreamTest, IsCancelledByProgress) {
  use(std::vector<std::size_t>(20, kSize));
  const auto self = std::this_thread::get_id();
  int calls = 0;
  std::uint64_t seen = 0;
  Result<Stream> stream = plan.stream({.threads = 3, .progress = [&](std::uint64_t done, std::uint64_t total) {
                                         EXPECT_EQ(std::this_thread::get_id(), self);
                                         EXPECT_EQ(total, 20 * kSize);
                                         EXPECT_GE(done, seen);
                                         seen = done;
                                         return ++calls < 3;
                                       }});
  ASSERT_TRUE(succeeds(stream));
  for (int takes = 0; takes < 2; ++takes) {
    EXPECT_TRUE(stream->wait_for(INT64_MAX));  // or next() calls progress while it waits, too
    ASSERT_TRUE(succeeds(stream->next()));
  }
  EXPECT_TRUE(stream->wait_for(INT64_MAX));
  for (int again = 0; again < 2; ++again) {
    const Error error = error_of(stream->next());
    EXPECT_EQ(error.code, Errc::cancelled);
    EXPECT_EQ(error.message, "cancelled after " + std::to_string(seen) + " of 2000000 bytes");
  }
  EXPECT_EQ(calls, 3);
}

TEST_F(StreamTest, ReportsAllBytesAtEnd) {
  use(std::vector<std::size_t>(100, 5000));
  for (int round = 0; round < 50; ++round) {
    std::uint64_t last = 0;
    const test::ChunkBytes chunks(4096);
    Result<Stream> stream = plan.stream({.threads = 4, .progress = [&](std::uint64_t done, std::uint64_t) {
                                           EXPECT_GE(done, last);
                                           last = done;
                                           return true;
                                         }});
    ASSERT_TRUE(succeeds(stream));
    expect_all(*stream);
    ASSERT_EQ(last, 500'000U);
  }
}

TEST_F(StreamTest, WaitForTakesNoItem) {
  use(std::vector<std::size_t>(5, kSize));
  source->open(false);
  Result<Stream> stream = plan.stream({.threads = 2});
  ASSERT_TRUE(succeeds(stream));
  EXPECT_FALSE(stream->wait_for(0));
  EXPECT_FALSE(stream->wait_for(INT64_MIN));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(stream->wait_for(70));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(70));
  source->open(true);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(stream->wait_for(INT64_MAX));
    EXPECT_TRUE(stream->wait_for(0));
    const Result<std::optional<StreamItem>> next = stream->next();
    ASSERT_TRUE(succeeds(next));
    expect_item(**next);
  }
  EXPECT_TRUE(stream->wait_for(INT64_MAX));
  EXPECT_FALSE(stream->next().value().has_value());
  EXPECT_TRUE(stream->wait_for(0));
}

TEST_F(StreamTest, WaitForDoesNotCallProgress) {
  use(std::vector<std::size_t>(3, kSize));
  source->open(false);
  int calls = 0;
  Result<Stream> stream =
      plan.stream({.threads = 1, .progress = [&](std::uint64_t, std::uint64_t) { return ++calls > 0; }});
  ASSERT_TRUE(succeeds(stream));
  EXPECT_FALSE(stream->wait_for(120));
  source->open(true);
  EXPECT_TRUE(stream->wait_for(INT64_MAX));
  EXPECT_EQ(calls, 0);
  ASSERT_TRUE(succeeds(stream->next()));
  EXPECT_EQ(calls, 1);
}

TEST_F(StreamTest, CancelWakesAllThreadsInWaitFor) {
  use(std::vector<std::size_t>(3, kSize));
  source->open(false);
  Result<Stream> stream = plan.stream({.threads = 2});
  ASSERT_TRUE(succeeds(stream));
  std::atomic<int> woken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { woken += stream->wait_for(INT64_MAX) ? 1 : 0; });
  EXPECT_FALSE(stream->wait_for(20));
  stream->cancel();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken, 4);
  EXPECT_EQ(error_of(stream->next()).code, Errc::cancelled);
  source->open(true);
}

TEST_F(StreamTest, WaitForAfterMoveDoesNotWait) {
  use({kSize});
  Result<Stream> stream = plan.stream();
  ASSERT_TRUE(succeeds(stream));
  Stream moved = *std::move(stream);
  EXPECT_TRUE(stream->wait_for(INT64_MAX));  // NOLINT(bugprone-use-after-move)
  expect_all(moved);
}

TEST_F(StreamTest, GivesCompleteItemsBeforeError) {
  use(std::vector<std::size_t>(50, kSize));
  source->fail_from = 4096 + 20 * kSize;
  for (const unsigned threads : {1U, 4U}) {
    Result<Stream> stream = plan.stream({.threads = threads, .memory_limit = std::uint64_t{1} << 40});
    ASSERT_TRUE(succeeds(stream));
    (void)source->begun(20 * kSize);  // then nothing is read any more
    std::set<std::size_t> taken;
    Result<std::optional<StreamItem>> next = stream->next();
    for (; next; next = stream->next()) {
      ASSERT_TRUE(next->has_value());
      expect_item(**next);
      EXPECT_TRUE(taken.insert((*next)->index).second);
    }
    EXPECT_EQ(next.error().code, Errc::read_failed);
    EXPECT_LE(taken.size(), 20U);
    EXPECT_GE(taken.size(), threads == 1 ? 20U : 0U);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(error_of(stream->next()).message, next.error().message);
    EXPECT_TRUE(stream->wait_for(0));
  }
}

TEST_F(StreamTest, CancelDropsItemsThatAreComplete) {
  use(std::vector<std::size_t>(5, kSize));
  Result<Stream> stream = plan.stream({.threads = 2});
  ASSERT_TRUE(succeeds(stream));
  (void)source->begun(5 * kSize);
  EXPECT_TRUE(stream->wait_for(INT64_MAX));
  stream->cancel();
  EXPECT_TRUE(stream->wait_for(0));
  for (int again = 0; again < 2; ++again) EXPECT_EQ(error_of(stream->next()).code, Errc::cancelled);
}

TEST_F(StreamTest, ReadsPlanAsItWas) {
  use(std::vector<std::size_t>(10, kSize));
  Result<Stream> stream = plan.stream({.threads = 2, .memory_limit = 1});
  ASSERT_TRUE(succeeds(stream));
  ASSERT_TRUE(succeeds(stream->next()));
  const Result<File> other = File::from_source(std::make_shared<ScriptedSource>(two_tensors()));
  ASSERT_TRUE(succeeds(other));
  for (int more = 0; more < 100; ++more) ASSERT_TRUE(succeeds(plan.add(tensor(*other, "a"))));
  ASSERT_TRUE(succeeds(stream->next()));
  plan = ReadPlan();
  std::size_t left = 0;
  for (Result<std::optional<StreamItem>> next = stream->next(); next && *next; next = stream->next(), ++left)
    expect_item(**next);
  EXPECT_EQ(left, 8U);
}

TEST_F(StreamTest, ReportsBytesReadSoFar) {
  use(std::vector<std::size_t>(10, kSize));
  Result<Stream> stream = plan.stream({.threads = 1, .memory_limit = kSize});
  ASSERT_TRUE(succeeds(stream));
  std::uint64_t begun = 0;
  for (std::uint64_t taken = 1; taken <= 10; ++taken) {
    ASSERT_TRUE(succeeds(stream->next()));
    begun += source->begun(std::min<std::uint64_t>(taken + 1, 10) * kSize - begun);  // with the next item, if any
    const Result<ReadReport> report = stream->report();
    ASSERT_TRUE(succeeds(report));
    EXPECT_GE(report->bytes, taken * kSize);
    EXPECT_GE(report->bytes_buffered, taken * kSize);
    EXPECT_GE(report->reads, taken);
    EXPECT_LE(report->bytes_buffered, (taken + 1) * kSize);
  }
}

TEST_F(StreamTest, KeepsTakenItemsAlive) {
  use(std::vector<std::size_t>(8, kSize));
  std::vector<StreamItem> kept;
  for (int round = 0; round < 4; ++round) {
    Result<Stream> stream = plan.stream({.threads = 2, .memory_limit = 3 * kSize});
    ASSERT_TRUE(succeeds(stream));
    for (int takes = 0; takes < 5; ++takes) kept.push_back(*std::move(*stream->next()));
  }
  for (const StreamItem& item : kept) expect_item(item);
}

// Small items share a map of their own: malloc would keep their memory for the process.
TEST_F(StreamTest, ReturnsMemoryOfSmallItemsToSystem) {
  use(std::vector<std::size_t>(100, 40'960));  // neighbours that are smaller than what malloc maps
  std::vector<StreamItem> kept;
  std::set<std::uintptr_t> pages;
  {
    Result<Stream> stream = plan.stream({.threads = 1});
    ASSERT_TRUE(succeeds(stream));
    while (std::optional<StreamItem> item = stream->next().value()) kept.push_back(*std::move(item));
  }
  ASSERT_EQ(kept.size(), tensors.size());
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const StreamItem& item : kept)
    pages.insert(reinterpret_cast<std::uintptr_t>(item.array.bytes().data()) / page * page);
  if (::msync(nullptr, page, MS_ASYNC) == 0) GTEST_SKIP() << "msync() does not tell what is mapped, as under qemu";
  const auto mapped = [&] {
    return std::ranges::count_if(pages, [&](std::uintptr_t start) {
      return ::msync(reinterpret_cast<void*>(start), page, MS_ASYNC) == 0;  // ENOMEM: nothing is mapped there
    });
  };
  EXPECT_EQ(mapped(), static_cast<std::ptrdiff_t>(pages.size()));
  kept.resize(1);
  expect_item(kept[0]);
  kept.clear();
  // The last items have less than 2 MiB together, and come from malloc.
  EXPECT_LE(mapped(), static_cast<std::ptrdiff_t>((2 << 20) / 40'960));
}

}  // namespace
}  // namespace safetensors
