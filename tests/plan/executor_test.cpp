// Threads of the caller read a plan. The result is complete or an error, whichever tasks an executor runs, and no task
// reads after the call.
#include <gtest/gtest.h>
#include <pthread.h>
#include <safetensors/executor.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/plan_support.h"
#include "support/sanitizers.h"

namespace safetensors {
namespace {

using namespace test;

// A source that notes its threads, and whose reads can be held up.
class WatchedSource final : public ScriptedSource {
 public:
  using ScriptedSource::ScriptedSource;

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> destination) const noexcept override {
    {
      std::unique_lock lock(mutex_);
      threads_.insert(std::this_thread::get_id());
      widest_ = std::max(widest_, ++inside_);
      ++calls_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
    }
    Result<std::size_t> count = ScriptedSource::read_at(offset, destination);
    const std::lock_guard lock(mutex_);
    --inside_;
    return count;
  }
  void open(bool value) {
    const std::lock_guard lock(mutex_);
    open_ = value;
    changed_.notify_all();
  }
  void wait_for_reads(std::size_t inside) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return inside_ >= inside; });
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    threads_.clear();
    widest_ = calls_ = 0;
  }
  std::set<std::thread::id> threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }
  std::size_t widest() const {
    const std::lock_guard lock(mutex_);
    return widest_;
  }
  std::size_t calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::set<std::thread::id> threads_;
  mutable std::size_t inside_ = 0;
  mutable std::size_t widest_ = 0;
  mutable std::size_t calls_ = 0;
  bool open_ = true;
};

// A pool as engines have it: threads that live long, and a queue.
class ThreadPool {
 public:
  explicit ThreadPool(std::size_t threads) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void run(std::size_t count, const ExecutorTask& task) {
    std::unique_lock lock(mutex_);
    std::size_t left = count;
    for (std::size_t i = 0; i < count; ++i) {
      queue_.push_back([this, &task, &left, i] {
        task(i);
        const std::lock_guard guard(mutex_);
        --left;
        changed_.notify_all();
      });
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return left == 0; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

void in_order(std::size_t count, const ExecutorTask& task) {
  for (std::size_t i = 0; i < count; ++i) task(i);
}
void backwards(std::size_t count, const ExecutorTask& task) {
  while (count-- > 0) task(count);
}
void thread_each(std::size_t count, const ExecutorTask& task) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&task, i] { task(i); });
  for (std::thread& thread : threads) thread.join();
}
void thread_after_thread(std::size_t count, const ExecutorTask& task) {
  for (std::size_t i = 0; i < count; ++i) std::thread([&task, i] { task(i); }).join();
}
void only_last(std::size_t count, const ExecutorTask& task) {
  task(count - 1);
}
void copies(std::size_t count, const ExecutorTask& task) {
  thread_each(count, ExecutorTask(task));
}
void each_twice(std::size_t count, const ExecutorTask& task) {
  thread_each(2 * count, [&](std::size_t index) { task(index % count); });
}
void pool_of_one(std::size_t count, const ExecutorTask& task) {
  ThreadPool(1).run(count, task);
}
void pool_of_three(std::size_t count, const ExecutorTask& task) {
  ThreadPool(3).run(count, task);
}

struct Kind {
  const char* name;
  void (*run)(std::size_t count, const ExecutorTask& task);
};
constexpr Kind kKinds[] = {
    {"in_order", in_order},           {"backwards", backwards},
    {"thread_each", thread_each},     {"thread_after_thread", thread_after_thread},
    {"only_last", only_last},         {"copies", copies},
    {"each_twice", each_twice},       {"pool_of_one", pool_of_one},
    {"pool_of_three", pool_of_three},
};

class ExecutorKinds : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ExecutorKinds, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

// Random items over a random file.
struct RandomPlan {
  explicit RandomPlan(std::uint64_t seed) : random(seed), file(random_file(random, 65536, 400'000)) {
    const File opened = File::from_source(std::make_shared<ScriptedSource>(file.bytes)).value();
    while (items.size() < 12) {
      std::optional<PlannedItem> item = random_item(random, random.of(file.tensors));
      if (!item) continue;
      items.push_back(*std::move(item));
      PlannedItem& made = items.back();
      Destination to;
      if (!made.memory.empty()) to = {std::as_writable_bytes(std::span(made.memory)), made.strides};
      const Tensor from = tensor(opened, made.tensor->name);
      const Status status = made.slice ? plan.add(from, Slice(*made.slice), to, {.cast = made.cast})
                                       : plan.add(from, to, {.cast = made.cast});
      EXPECT_TRUE(succeeds(status));
    }
  }
  void expect_item(std::size_t index, const Array& array) const {
    const PlannedItem& item = items[index];
    if (item.memory.empty()) {
      EXPECT_TRUE(data_of(array) == item.result) << index;
    } else {
      EXPECT_TRUE(item.memory == item.expected) << index;
    }
  }

  PlanRandom random;
  PlannedFile file;
  std::deque<PlannedItem> items;
  ReadPlan plan;
};

TEST_P(ExecutorKinds, ExecuteReadsEverything) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RandomPlan planned(seed);
    ReadOptions options{.threads = static_cast<unsigned>(seed), .executor = GetParam().run, .chunk_bytes = 20'000};
    std::uint64_t last = 0;
    bool reserved = false;
    std::atomic<std::uint64_t> chunks{0};
    options.progress = [&](std::uint64_t completed, std::uint64_t total) {
      EXPECT_TRUE(reserved);
      EXPECT_GE(completed, last);
      EXPECT_EQ(total, planned.plan.nbytes());
      last = completed;
      return true;
    };
    options.on_reserved = [&](std::span<const Array> arrays) {
      EXPECT_EQ(arrays.size(), planned.items.size());
      EXPECT_EQ(chunks, 0U);
      return reserved = true;
    };
    options.on_chunk = [&](std::size_t, std::uint64_t, std::span<const std::byte> bytes) { chunks += bytes.size(); };
    const Result<ReadResult> result = planned.plan.execute(options);
    ASSERT_TRUE(succeeds(result));
    for (std::size_t i = 0; i < planned.items.size(); ++i) planned.expect_item(i, result->arrays[i]);
    EXPECT_EQ(last, planned.plan.nbytes());
    EXPECT_EQ(chunks, planned.plan.nbytes());
    EXPECT_EQ(result->report.bytes, planned.plan.nbytes());
  }
}

TEST_P(ExecutorKinds, StreamReadsEverything) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RandomPlan planned(seed);
    ReadOptions options{.threads = 3, .executor = GetParam().run};
    options.memory_limit = seed % 3 * 100'000;
    std::uint64_t last = 0;
    options.progress = [&](std::uint64_t completed, std::uint64_t) {
      EXPECT_GE(completed, last);
      last = completed;
      return true;
    };
    Result<Stream> stream = planned.plan.stream(options);
    ASSERT_TRUE(succeeds(stream));
    std::vector<int> seen(planned.items.size());
    for (;;) {
      EXPECT_TRUE(stream->wait_for(TimeSpan()));
      Result<std::optional<StreamItem>> next = stream->next();
      ASSERT_TRUE(succeeds(next));
      if (!*next) break;
      ++seen[(*next)->index];
      planned.expect_item((*next)->index, (*next)->array);
    }
    EXPECT_EQ(seen, std::vector<int>(planned.items.size(), 1));
    EXPECT_EQ(last, planned.plan.nbytes());
    EXPECT_FALSE(stream->next().value());
  }
}

class ExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<File> opened = File::from_source(source);
    ASSERT_TRUE(succeeds(opened));
    for (const PlannedTensor& planned : tensors) ASSERT_TRUE(succeeds(plan.add(tensor(*opened, planned.name))));
    source->forget();
  }
  void expect_all(const ReadResult& result) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(data_of(result.arrays[i]) == tensors[i].bytes) << i;
  }
  // The error of execute() and of the first next() with this executor.
  void expect_errors(const Executor& executor, Errc code, const std::string& message) const {
    const ReadOptions options{.threads = 2, .executor = executor, .chunk_bytes = 65536};
    const Error error = error_of(plan.execute(options));
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_EQ(error.message, message);
    Result<Stream> stream = plan.stream(options);
    ASSERT_TRUE(succeeds(stream));
    Result<std::optional<StreamItem>> next = stream->next();
    for (; next && *next; next = stream->next()) EXPECT_TRUE(data_of((*next)->array) == tensors[(*next)->index].bytes);
    EXPECT_EQ(error_of(next).code, code);
    EXPECT_EQ(error_of(stream->next()).message, message);
  }

  const std::vector<PlannedTensor> tensors = tensors_of({300'000, 0, 400'000, 5, 500'000, 300'000});
  const std::shared_ptr<WatchedSource> source = std::make_shared<WatchedSource>(file_of(tensors, 0));
  ReadPlan plan;
};

TEST_F(ExecutorTest, LibraryStartsNoThread) {
  std::set<std::thread::id> pool;
  std::mutex mutex;
  ThreadPool threads(3);
  const Executor executor = [&](std::size_t count, const ExecutorTask& task) {
    threads.run(count, [&](std::size_t index) {
      {
        const std::lock_guard lock(mutex);
        pool.insert(std::this_thread::get_id());
      }
      task(index);
    });
  };
  const Result<ReadResult> result = plan.execute({.threads = 5, .executor = executor, .chunk_bytes = 4096});
  ASSERT_TRUE(succeeds(result));
  expect_all(*result);
  EXPECT_EQ(result->report.threads, 5U);
  Result<Stream> stream = plan.stream({.threads = 5, .executor = executor});
  ASSERT_TRUE(succeeds(stream));
  while (stream->next().value()) continue;
  EXPECT_TRUE(std::ranges::includes(pool, source->threads()));
  EXPECT_FALSE(source->threads().contains(std::this_thread::get_id()));
}

TEST_F(ExecutorTest, NumberOfTasksIsThatOfThreads) {
  std::vector<std::size_t> counts;
  const Executor executor = [&](std::size_t count, const ExecutorTask& task) {
    counts.push_back(count);
    task(0);
  };
  ASSERT_TRUE(succeeds(plan.execute({.threads = 7, .executor = executor, .chunk_bytes = 4096})));
  EXPECT_EQ(counts, std::vector<std::size_t>{7});
  ASSERT_TRUE(succeeds(ReadPlan().execute({.executor = executor})));
  EXPECT_FALSE(ReadPlan().stream({.executor = executor}).value().next().value());
  EXPECT_EQ(counts.size(), 1U) << "without items there is nothing to run";
}

TEST_F(ExecutorTest, StreamReadsOnlyInNext) {
  std::size_t runs = 0;
  const Executor executor = [&](std::size_t count, const ExecutorTask& task) {
    ++runs;
    thread_each(count, task);
  };
  Result<Stream> stream = plan.stream({.threads = 2, .executor = executor, .memory_limit = 1'200'000});
  ASSERT_TRUE(succeeds(stream));
  EXPECT_EQ(source->calls(), 0U);
  std::size_t items = 0;
  for (std::uint64_t held = 0; const auto next = stream->next().value(); ++items) {
    const std::size_t calls = source->calls();
    held = next->array.nbytes();
    std::this_thread::yield();
    EXPECT_EQ(source->calls(), calls);
    EXPECT_LE(held, 500'000U);
  }
  EXPECT_EQ(items, tensors.size());
  EXPECT_GT(runs, 1U) << "the limit is smaller than all items";
  EXPECT_LT(runs, tensors.size()) << "tasks read several items";
}

TEST_F(ExecutorTest, ExceptionIsError) {
  const auto runs = [](int tasks, auto exception) -> Executor {
    return [tasks, exception](std::size_t count, const ExecutorTask& task) {
      if (tasks != 0) thread_each(count, task);
      throw exception;
    };
  };
  for (const int tasks : {0, 1}) {
    expect_errors(runs(tasks, std::runtime_error("the pool is closed")), Errc::invalid_argument,
                  "the executor threw an exception: the pool is closed");
    expect_errors(runs(tasks, std::bad_alloc()), Errc::out_of_memory, "out of memory");
    expect_errors(runs(tasks, 7), Errc::invalid_argument,
                  "the executor threw an exception: not derived from std::exception");
  }
}

TEST_F(ExecutorTest, RunningNoTaskIsError) {
  expect_errors([](std::size_t, const ExecutorTask&) {}, Errc::invalid_argument,
                "the executor ran none of 2 tasks, expected all of them");
  EXPECT_EQ(source->calls(), 0U);
}

TEST_F(ExecutorTest, WaitsForTasksAfterEarlyReturn) {
  std::vector<std::thread> threads;
  source->open(false);
  const Executor executor = [&](std::size_t count, const ExecutorTask& task) {
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([task, i] { task(i); });
    source->wait_for_reads(1);
    threads.emplace_back([&] { source->open(true); });
  };
  const Result<ReadResult> result = plan.execute({.threads = 3, .executor = executor, .chunk_bytes = 65536});
  const std::size_t calls = source->calls();
  ASSERT_TRUE(succeeds(result));
  expect_all(*result);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(source->calls(), calls);
}

TEST_F(ExecutorTest, LateTaskDoesNothing) {
  std::vector<ExecutorTask> kept;
  const Executor executor = [&](std::size_t, const ExecutorTask& task) { kept.push_back(task); };
  EXPECT_EQ(error_of(plan.execute({.executor = executor})).code, Errc::invalid_argument);
  {
    Result<Stream> stream = plan.stream({.executor = executor});
    ASSERT_TRUE(succeeds(stream));
    EXPECT_EQ(error_of(stream->next()).code, Errc::invalid_argument);
  }
  ASSERT_EQ(kept.size(), 2U);
  for (const ExecutorTask& task : kept) task(0);
  EXPECT_EQ(source->calls(), 0U);
}

TEST_F(ExecutorTest, RunsNoMoreTasksThanRequested) {
  const Executor executor = [&](std::size_t count, const ExecutorTask& task) {
    thread_each(4 * count, [&](std::size_t index) { task(index % count); });
  };
  ASSERT_TRUE(succeeds(plan.execute({.threads = 2, .executor = executor, .chunk_bytes = 4096})));
  EXPECT_LE(source->widest(), 2U);
}

TEST_F(ExecutorTest, FirstFailedReadIsTheError) {
  const File file = File::from_source(source).value();
  source->fail_from = file.header().find("t2")->file_offset + 100'000;
  for (const Kind& kind : kKinds) {
    ReadOptions options{.threads = 3, .executor = kind.run, .chunk_bytes = 65536};
    const Error error = error_of(plan.execute(options));
    EXPECT_EQ(error.code, Errc::read_failed) << kind.name;
    EXPECT_EQ(error.message.substr(0, 12), "tensor `t2`:") << kind.name << error.message;
    Stream stream = plan.stream(options).value();
    Result<std::optional<StreamItem>> next = stream.next();
    while (next && *next) next = stream.next();
    EXPECT_EQ(error_of(next).code, Errc::read_failed) << kind.name;
  }
}

TEST_F(ExecutorTest, ProgressCancelsTasks) {
  for (const Kind& kind : kKinds) {
    source->forget();
    ReadOptions options{.threads = 2, .executor = kind.run, .chunk_bytes = 65536};
    options.progress = [](std::uint64_t, std::uint64_t) { return false; };
    EXPECT_EQ(error_of(plan.execute(options)).code, Errc::cancelled) << kind.name;
    EXPECT_LE(source->calls(), 4U) << kind.name;
    Stream stream = plan.stream(options).value();
    EXPECT_EQ(error_of(stream.next()).code, Errc::cancelled) << kind.name;
    EXPECT_EQ(error_of(stream.next()).code, Errc::cancelled) << kind.name;
  }
}

TEST_F(ExecutorTest, OnReservedCancelsBeforeTasks) {
  bool ran = false;
  ReadOptions options{.executor = [&](std::size_t, const ExecutorTask&) { ran = true; }};
  options.on_reserved = [](std::span<const Array>) { return false; };
  EXPECT_EQ(error_of(plan.execute(options)).code, Errc::cancelled);
  EXPECT_FALSE(ran);
}

TEST_F(ExecutorTest, AnotherThreadCancelsStream) {
  source->open(false);
  Stream stream = plan.stream({.threads = 2, .executor = thread_each, .chunk_bytes = 65536}).value();
  std::thread other([&] {
    source->wait_for_reads(1);
    EXPECT_FALSE(stream.wait_for(TimeSpan()));
    stream.cancel();
    EXPECT_TRUE(stream.wait_for(TimeSpan()));
    source->open(true);
  });
  EXPECT_EQ(error_of(stream.next()).code, Errc::cancelled);
  other.join();
  EXPECT_LE(source->calls(), 2U);
}

TEST_F(ExecutorTest, ThreadOfPoolMayReadInItself) {
  ThreadPool pool(1);
  Result<ReadResult> result = Error{.code = Errc::unsupported};
  pool.run(1, [&](std::size_t) { result = plan.execute({.threads = 4, .executor = in_order}); });
  ASSERT_TRUE(succeeds(result));
  expect_all(*result);
}

TEST_F(ExecutorTest, TwoPlansShareOnePool) {
  ThreadPool pool(2);
  const Executor executor = [&](std::size_t count, const ExecutorTask& task) { pool.run(count, task); };
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int again = 0; again < 5; ++again) {
        const Result<ReadResult> result = plan.execute({.threads = 3, .executor = executor, .chunk_bytes = 65536});
        ASSERT_TRUE(succeeds(result));
        expect_all(*result);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// As the header says: a task needs at most 128 KiB of stack. A sanitizer makes frames larger.
TEST_F(ExecutorTest, TasksNeedLittleStack) {
  if (kSanitized) GTEST_SKIP() << "frames of a sanitizer are larger";
  const Executor executor = [](std::size_t, const ExecutorTask& task) {
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::size_t{128} << 10), 0);
    pthread_t thread;
    const auto run = [](void* given) -> void* {
      (*static_cast<const ExecutorTask*>(given))(0);
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<ExecutorTask*>(&task)), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
  };
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    RandomPlan planned(seed);
    const Result<ReadResult> result = planned.plan.execute({.executor = executor});
    ASSERT_TRUE(succeeds(result));
    for (std::size_t i = 0; i < planned.items.size(); ++i) planned.expect_item(i, result->arrays[i]);
  }
}

// A Source that waits in the pool: its thread runs another task meanwhile. One thread at a time may call the Source, so
// that task would wait for a lock of its own thread.
TEST(Executors, ThreadInsideOfATaskRunsNoOther) {
  class Waiting final : public ScriptedSource {
   public:
    using ScriptedSource::ScriptedSource;
    Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> destination) const noexcept override {
      if (pool != nullptr) (*pool)(1);
      return ScriptedSource::read_at(offset, destination);
    }
    bool concurrent() const noexcept override { return false; }
    const ExecutorTask* pool = nullptr;
  };
  const std::vector<PlannedTensor> tensors = tensors_of({300'000, 400'000});
  const auto source = std::make_shared<Waiting>(file_of(tensors, 0));
  ReadPlan plan;
  const File file = File::from_source(source).value();
  for (const PlannedTensor& planned : tensors) ASSERT_TRUE(succeeds(plan.add(tensor(file, planned.name))));
  const Executor executor = [&](std::size_t count, const ExecutorTask& task) {
    source->pool = &task;
    for (std::size_t i = 0; i < count; ++i) task(i);
    source->pool = nullptr;
  };
  const Result<ReadResult> result = plan.execute({.threads = 2, .executor = executor});
  ASSERT_TRUE(succeeds(result));
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(data_of(result->arrays[i]) == tensors[i].bytes);
}

}  // namespace
}  // namespace safetensors
