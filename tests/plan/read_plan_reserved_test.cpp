#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "support/file_support.h"
#include "support/plan_tuning.h"

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

constexpr std::size_t kReserved = 500'000;
constexpr std::chrono::seconds kMaxBlock{60};  // a test that waits so long fails

// Once closed, lets no read go on before open(), and tells of the first one that waits.
class BlockedSource final : public ScriptedSource {
 public:
  using ScriptedSource::ScriptedSource;

  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    {
      std::unique_lock lock(mutex_);
      ++begun_;
      changed_.notify_all();
      if (!changed_.wait_for(lock, kMaxBlock, [&] { return open_; })) return Error{.code = Errc::read_failed};
    }
    return ScriptedSource::read_at(offset, destination);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
    begun_ = 0;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool wait_for_read() const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kMaxBlock, [&] { return begun_ != 0; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int begun_ = 0;
  bool open_ = true;
};

template <class Source>
File file_over(const std::shared_ptr<Source>& source) {
  Result<File> file = File::from_source(source);
  EXPECT_TRUE(succeeds(file));
  (void)source->reads();
  return *std::move(file);
}

TEST(PlanReserved, ShowsArraysOfResultOnce) {
  const File file = file_over(std::make_shared<ScriptedSource>(two_tensors()));
  std::vector<std::uint16_t> own(2);
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "b"))));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"), Slice{DimSlice::at(1)}, {}, Dtype::F64)));
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "b"), {}, {std::as_writable_bytes(std::span(own))})));
  for (const unsigned threads : {0U, 1U, 2U}) {
    std::vector<Array> shown;
    int calls = 0;
    const Result<ReadResult> result =
        plan.execute({.threads = threads, .on_reserved = [&](std::span<const Array> arrays) {
                        ++calls;
                        shown.assign(arrays.begin(), arrays.end());
                        return true;
                      }});
    ASSERT_TRUE(succeeds(result));
    EXPECT_EQ(calls, 1);
    ASSERT_EQ(shown.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(shown[i].bytes().data(), result->arrays[i].bytes().data());
      EXPECT_EQ(shown[i].nbytes(), result->arrays[i].nbytes());
      EXPECT_EQ(shown[i].dtype(), result->arrays[i].dtype());
      EXPECT_EQ(shown[i].shape(), result->arrays[i].shape());
      EXPECT_EQ(shown[i].memory(), result->arrays[i].memory());
    }
    EXPECT_EQ(elements<std::uint16_t>(shown[0]), (std::vector<std::uint16_t>{1, 2}));
    EXPECT_EQ(elements<double>(shown[1]), (std::vector<double>{3, 4, 5}));
    EXPECT_EQ(shown[2].bytes().data(), reinterpret_cast<const std::byte*>(own.data()));
  }
}

TEST(PlanReserved, RunsWhileOtherThreadsRead) {
  const auto source = std::make_shared<BlockedSource>(one_tensor("U8", "[500000]", kReserved));
  const File file = file_over(source);
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "t"))));
  source->close();
  const std::thread::id caller = std::this_thread::get_id();
  const test::ChunkBytes chunks(10'000);
  const Result<ReadResult> result = plan.execute({.threads = 2, .on_reserved = [&](std::span<const Array> arrays) {
                                                    EXPECT_EQ(std::this_thread::get_id(), caller);
                                                    EXPECT_EQ(arrays.size(), 1U);
                                                    EXPECT_TRUE(source->wait_for_read());
                                                    source->open();
                                                    return true;
                                                  }});
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(data_of(result->arrays[0]) == pattern(kReserved));
}

TEST(PlanReserved, ShowsNothingOfEmptyPlan) {
  int calls = 0;
  const Result<ReadResult> result = ReadPlan().execute({.on_reserved = [&](std::span<const Array> arrays) {
    ++calls;
    return arrays.empty();
  }});
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(calls, 1);
}

TEST(PlanReserved, CancelsOnFalse) {
  const auto source = std::make_shared<ScriptedSource>(one_tensor("U8", "[500000]", kReserved));
  source->fail_from = 1000;  // the reason of the caller comes before that of a read
  const File file = file_over(source);
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "t"))));
  for (const unsigned threads : {1U, 4U}) {
    const test::ChunkBytes chunks(10'000);
    const Error error =
        error_of(plan.execute({.threads = threads, .on_reserved = [](std::span<const Array>) { return false; }}));
    EXPECT_EQ(error.code, Errc::cancelled);
    EXPECT_EQ(error.message, "cancelled after 0 of 500000 bytes");
    if (threads == 1) {
      EXPECT_TRUE(source->reads().empty());
    }
  }
}

TEST(PlanReserved, MemoryOutlivesFailedRead) {
  const auto source = std::make_shared<ScriptedSource>(one_tensor("U8", "[500000]", kReserved));
  source->fail_from = 400'000;
  const File file = file_over(source);
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "t"))));
  Array kept;
  const test::ChunkBytes chunks(10'000);
  const Error error = error_of(plan.execute({.threads = 2, .on_reserved = [&](std::span<const Array> arrays) {
                                               kept = arrays[0];
                                               return true;
                                             }}));
  EXPECT_EQ(error.code, Errc::read_failed);
  ASSERT_EQ(kept.nbytes(), kReserved);
  const Result<Span<std::byte>> bytes = kept.mutable_bytes();
  ASSERT_TRUE(succeeds(bytes));
  std::ranges::fill(*bytes, std::byte{7});
}

TEST(PlanReserved, IsForExecuteOnly) {
  const File file = file_over(std::make_shared<ScriptedSource>(two_tensors()));
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "a"))));
  int calls = 0;
  Result<Stream> stream = plan.stream({.on_reserved = [&](std::span<const Array>) { return ++calls == 0; }});
  ASSERT_TRUE(succeeds(stream));
  const Result<std::optional<StreamItem>> item = stream->next();
  ASSERT_TRUE(succeeds(item));
  EXPECT_TRUE(item->has_value());
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace safetensors
