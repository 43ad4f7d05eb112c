// Results in memory of the caller: one allocation per result, freed once with its last Array, also after a failure.
#include <gtest/gtest.h>
#include <safetensors/allocator.h>
#include <safetensors/file.h>
#include <safetensors/read_packed.h>
#include <safetensors/read_plan.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/plan_support.h"

namespace safetensors {
namespace {

using namespace test;

// Memory whose every allocation and release is noted.
class Heap {
 public:
  ~Heap() { EXPECT_EQ(live(), 0U); }

  [[nodiscard]] Allocator allocator() {
    return {.allocate = [this](std::size_t size, std::size_t alignment) { return allocate(size, alignment); },
            .deallocate = [this](void* memory, std::size_t size) { deallocate(memory, size); }};
  }
  [[nodiscard]] std::size_t live() const {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }
  [[nodiscard]] bool owns(const void* memory, std::size_t size) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(memory);
    return found != live_.end() && found->second == size;
  }

  std::vector<std::size_t> sizes;  // of all allocations, in their order
  std::size_t fail_at = ~std::size_t{0};
  bool throws = false;
  std::size_t shift = 0;  // makes addresses misaligned

 private:
  void* allocate(std::size_t size, std::size_t alignment) {
    EXPECT_FALSE(busy_.exchange(true)) << "one allocation at a time";
    const std::lock_guard lock(mutex_);
    busy_ = false;
    EXPECT_EQ(alignment, 64U);
    EXPECT_NE(size, 0U);
    if (sizes.size() == fail_at) {
      if (throws) throw std::bad_alloc();
      return nullptr;
    }
    sizes.push_back(size);
    void* const memory = static_cast<char*>(::operator new(size + 64, std::align_val_t(64))) + shift;
    live_.emplace(memory, size);
    return memory;
  }
  void deallocate(void* memory, std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(memory);
    ASSERT_TRUE(found != live_.end() && found->second == size) << "freed once, with the same size";
    live_.erase(found);
    ::operator delete(static_cast<char*>(memory) - shift, std::align_val_t(64));
  }

  mutable std::mutex mutex_;
  std::atomic<bool> busy_{false};
  std::map<const void*, std::size_t> live_;
};

class AllocatorTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<File> opened = File::from_source(source);
    ASSERT_TRUE(succeeds(opened));
    for (const PlannedTensor& planned : tensors) ASSERT_TRUE(succeeds(plan.add(tensor(*opened, planned.name))));
    (void)source->reads();
  }
  [[nodiscard]] Error error_with(const ReadOptions& options) const {
    const Error error = error_of(plan.execute(options));
    Result<Stream> stream = plan.stream(options);
    if (!stream) {
      EXPECT_EQ(stream.error().message, error.message);
      return error;
    }
    Result<std::optional<StreamItem>> next = stream->next();
    while (next && *next) next = stream->next();
    EXPECT_EQ(error_of(next).message, error.message);
    return error;
  }

  const std::vector<PlannedTensor> tensors = tensors_of({300'000, 0, 1, 400'000, 77});
  const std::shared_ptr<ScriptedSource> source = std::make_shared<ScriptedSource>(file_of(tensors, 0));
  Heap heap;
  ReadPlan plan;
};

TEST_F(AllocatorTest, EveryResultIsOneAllocation) {
  std::optional<ReadResult> result = plan.execute({.allocator = heap.allocator()}).value();
  EXPECT_EQ(heap.sizes, (std::vector<std::size_t>{300'000, 1, 400'000, 77}));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Array& array = result->arrays[i];
    EXPECT_TRUE(data_of(array) == tensors[i].bytes);
    EXPECT_EQ(array.memory(), MemoryKind::owned);
    EXPECT_TRUE(array.writable());
    EXPECT_EQ(heap.owns(array.bytes().data(), array.bytes().size()), !tensors[i].bytes.empty());
  }
  plan = ReadPlan();
  std::optional<Array> kept = result->arrays[3];
  result.reset();
  EXPECT_EQ(heap.live(), 1U);
  EXPECT_TRUE(data_of(*kept) == tensors[3].bytes);
  std::thread([&] { kept.reset(); }).join();
  EXPECT_EQ(heap.live(), 0U);
}

TEST_F(AllocatorTest, PackedBufferIsOneAllocation) {
  const File file = File::from_source(source).value();
  const PackedLayout layout = PackedLayout::make(file.tensors(), {.alignment = 8}).value();
  std::optional<Packed> packed = read_packed(layout, {}, {.allocator = heap.allocator()}).value();
  EXPECT_EQ(heap.sizes, std::vector<std::size_t>{static_cast<std::size_t>(layout.nbytes())});
  EXPECT_TRUE(heap.owns(packed->memory.bytes().data(), packed->memory.bytes().size()));
  for (const PlannedTensor& planned : tensors) {
    const Array array = packed->array(planned.name).value();
    EXPECT_TRUE(data_of(array) == planned.bytes);
  }
  packed.reset();
  EXPECT_EQ(heap.live(), 0U);
  heap.shift = 8;
  EXPECT_EQ(error_of(read_packed(layout, {}, {.allocator = heap.allocator()})).code, Errc::invalid_argument);
  heap.fail_at = heap.sizes.size();
  EXPECT_EQ(error_of(read_packed(layout, {}, {.allocator = heap.allocator()})).code, Errc::out_of_memory);
  Arena arena;
  EXPECT_EQ(error_of(read_packed(layout, {}, {.arena = &arena, .allocator = heap.allocator()})).code,
            Errc::invalid_argument);
}

TEST_F(AllocatorTest, StreamUsesItToo) {
  std::optional<Stream> stream =
      plan.stream({.threads = 3, .memory_limit = 350'000, .allocator = heap.allocator()}).value();
  std::vector<Array> kept;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::optional<StreamItem> item = stream->next().value();
    ASSERT_TRUE(item);
    EXPECT_TRUE(data_of(item->array) == tensors[item->index].bytes);
    EXPECT_EQ(heap.owns(item->array.bytes().data(), item->array.bytes().size()), !item->array.bytes().empty());
    if (i % 2 == 0) kept.push_back(item->array);
  }
  EXPECT_FALSE(stream->next().value());
  stream.reset();
  EXPECT_LE(heap.live(), kept.size());
  std::size_t all = 0;
  for (const std::size_t size : heap.sizes) all += size;
  EXPECT_EQ(all, plan.nbytes());
}

TEST_F(AllocatorTest, UnfinishedStreamFreesAll) {
  for (int taken = 0; taken < 3; ++taken) {
    Stream stream = plan.stream({.threads = 2, .allocator = heap.allocator()}).value();
    for (int i = 0; i < taken; ++i) EXPECT_TRUE(succeeds(stream.next()));
  }
  EXPECT_EQ(heap.live(), 0U);
}

TEST_F(AllocatorTest, DestinationsNeedNone) {
  const File file = File::from_source(source).value();
  std::vector<std::byte> memory(300'000);
  ReadPlan mixed;
  ASSERT_TRUE(succeeds(mixed.add(tensor(file, "t0"), {.bytes = memory})));
  ASSERT_TRUE(succeeds(mixed.add(tensor(file, "t3"), Slice{DimSlice::range(1, 1001)})));
  ASSERT_TRUE(succeeds(mixed.add(tensor(file, "t4"), {}, {.cast = Dtype::I16})));
  const Result<ReadResult> result = mixed.execute({.allocator = heap.allocator()});
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(heap.sizes, (std::vector<std::size_t>{1000, 154}));
  EXPECT_EQ(result->arrays[0].memory(), MemoryKind::borrowed);
  EXPECT_TRUE(data_of(result->arrays[1]) == tensors[3].bytes.substr(1, 1000));
}

TEST_F(AllocatorTest, NoMemoryIsError) {
  const std::vector<std::string> names = {"t0", "t2", "t3", "t4"};
  for (const bool throws : {false, true}) {
    for (std::size_t at = 0; at < names.size(); ++at) {
      heap.throws = throws;
      heap.sizes.clear();
      heap.fail_at = at;
      const Error error = error_of(plan.execute({.threads = 1, .allocator = heap.allocator()}));
      EXPECT_EQ(error.code, Errc::out_of_memory);
      EXPECT_EQ(error.message, "tensor `" + names[at] + "`: the allocator has no memory of " +
                                   std::to_string(std::vector{300'000, 1, 400'000, 77}[at]) + " bytes");
      EXPECT_EQ(heap.live(), 0U);
      EXPECT_TRUE(source->reads().empty()) << "nothing is read";
      heap.sizes.clear();
      Stream stream = plan.stream({.threads = 1, .allocator = heap.allocator()}).value();
      Result<std::optional<StreamItem>> next = stream.next();
      for (; next && *next; next = stream.next()) EXPECT_TRUE(data_of((*next)->array) == tensors[(*next)->index].bytes);
      EXPECT_EQ(error_of(next).message, error.message);
      (void)source->reads();
    }
  }
}

TEST_F(AllocatorTest, MisalignedMemoryIsError) {
  heap.shift = 32;
  const Error error = error_with({.threads = 1, .allocator = heap.allocator()});
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "tensor `t0`: the allocator returned misaligned memory, expected a multiple of 64");
}

TEST_F(AllocatorTest, FailedReadFreesAll) {
  source->fail_from = 500'000;
  EXPECT_EQ(error_with({.threads = 2, .allocator = heap.allocator()}).code, Errc::read_failed);
  EXPECT_EQ(heap.live(), 0U);
}

TEST_F(AllocatorTest, OptionsThatContradictAreErrors) {
  Arena arena;
  ReadOptions both{.arena = &arena, .allocator = heap.allocator()};
  EXPECT_EQ(error_with(both).message, "both an arena and an allocator are set, expected one of them");
  for (const bool first : {false, true}) {
    ReadOptions half{.allocator = heap.allocator()};
    if (first)
      half.allocator.allocate = nullptr;
    else
      half.allocator.deallocate = nullptr;
    const Error error = error_with(half);
    EXPECT_EQ(error.code, Errc::invalid_argument);
    EXPECT_EQ(error.message, "the allocator has one function, expected allocate and deallocate");
  }
  EXPECT_TRUE(heap.sizes.empty());
}

TEST_F(AllocatorTest, WorksWithExecutor) {
  const Executor executor = [](std::size_t count, const ExecutorTask& task) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&task, i] { task(i); });
    for (std::thread& thread : threads) thread.join();
  };
  ReadOptions options{.threads = 3, .executor = executor, .chunk_bytes = 4096, .allocator = heap.allocator()};
  {
    const Result<ReadResult> result = plan.execute(options);
    ASSERT_TRUE(succeeds(result));
    for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(data_of(result->arrays[i]) == tensors[i].bytes);
  }
  Stream stream = plan.stream(options).value();
  std::size_t items = 0;
  while (stream.next().value()) ++items;
  EXPECT_EQ(items, tensors.size());
}

}  // namespace
}  // namespace safetensors
