// save_checkpoint() of tensors that several threads read from a Source of the caller.
#include <gtest/gtest.h>
#include <safetensors/checkpoint_writer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "os/parallel.h"
#include "support/file_support.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

// A file with one tensor of zeros.
class ZeroSource final : public FilledSource {
 public:
  ZeroSource(std::size_t bytes, bool concurrent) : FilledSource(one_header(bytes), bytes), concurrent_(concurrent) {}

  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const override {
    if (reading) reading(destination.size());
    return FilledSource::read_at(offset, destination);
  }
  [[nodiscard]] bool concurrent() const noexcept override { return concurrent_; }

  std::function<void(std::size_t size)> reading;  // called at the start of each read

 private:
  const bool concurrent_;
};

class SaveSources : public ::testing::Test {
 protected:
  // Saves the tensor of the source twice, in two files. A File for each reads it.
  Status save_twice(ZeroSource& source, std::size_t bytes, const std::function<void(std::size_t)>& reading,
                    const WriteOptions& options) {
    const std::shared_ptr<const Source> shared(&source, [](const Source*) {});
    const NamedTensor tensors[] = {{"a", File::from_source(shared).value()["t"]},
                                   {"b", File::from_source(shared).value()["t"]}};
    source.reading = reading;
    const Status status =
        save_checkpoint(directory_ / "model", tensors, {.max_shard_size = bytes}, CheckpointWriteOptions{options});
    source.reading = nullptr;
    return status;
  }

  const TemporaryDirectory directory_;
};

TEST_F(SaveSources, CanBeCancelledWhileThreadsWrite) {
  if (os::usable_processors() < 2) GTEST_SKIP() << "with one processor, only the calling thread writes";
  // The helper waits in its first step until the calling thread has written its file, waits, and cancels.
  constexpr std::size_t kSize = std::size_t{96} << 20;  // six steps
  constexpr std::chrono::minutes kForever{1};           // ends a test that fails
  const auto self = std::this_thread::get_id();
  std::mutex mutex;
  std::condition_variable changed;
  bool helped = false, cancelled = false;
  std::size_t of_helper = 0;
  std::uint64_t reported = 0;
  int calls_after = 0;
  const auto reading = [&](std::size_t size) {
    std::unique_lock lock(mutex);
    if (std::this_thread::get_id() == self) {
      EXPECT_TRUE(changed.wait_for(lock, kForever, [&] { return helped; }));
      return;
    }
    helped = true;
    changed.notify_all();
    if (of_helper == 0) {
      EXPECT_TRUE(changed.wait_for(lock, kForever, [&] { return cancelled; }));
    }
    of_helper += size;
    lock.unlock();
    for (int i = 0; i < 1000; ++i)
      std::this_thread::yield();  // for the calling thread, which goes back from `progress`
  };
  WriteOptions options{.durability = Durability::none};
  options.progress = [&](std::uint64_t done, std::uint64_t) {
    const std::lock_guard lock(mutex);
    if (cancelled) ++calls_after;
    cancelled = done == std::exchange(reported, done);  // only a call while it waits repeats a number
    changed.notify_all();
    return !cancelled;
  };
  ZeroSource source(kSize, true);
  EXPECT_EQ(error_of(save_twice(source, kSize, reading, options)).code, Errc::cancelled);
  EXPECT_LT(of_helper, kSize);
  EXPECT_EQ(calls_after, 0);
  EXPECT_TRUE(directory_.names().empty());
}

// Each File has a lock of its own.
TEST_F(SaveSources, AreReadByOneThreadIfTheyAskForIt) {
  constexpr std::size_t kSize = std::size_t{4} << 20;
  for (const Durability durability : {Durability::none, Durability::full}) {
    std::atomic<int> inside{0};
    std::atomic<bool> overlapped{false};
    const auto reading = [&](std::size_t) {
      if (inside.fetch_add(1) != 0) overlapped = true;
      for (int i = 0; i < 1000 && !overlapped; ++i) std::this_thread::yield();  // for others to come
      inside.fetch_sub(1);
    };
    ZeroSource source(kSize, false);
    ASSERT_TRUE(succeeds(save_twice(source, kSize, reading, {.durability = durability})));
    EXPECT_FALSE(overlapped);
  }
}

}  // namespace
}  // namespace safetensors::test
