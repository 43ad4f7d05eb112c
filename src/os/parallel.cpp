#include "os/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "os/posix_file.h"
#include "os/thread_group.h"

namespace safetensors::os {
namespace {

constexpr unsigned kMostThreads = 16;
constexpr std::chrono::milliseconds kBetweenLooks{20};  // for a cancellation, by a thread that only waits

class Run {
 public:
  Run(Tasks& tasks, std::size_t count) noexcept : tasks_(tasks), count_(count), failed_(count) {}

  void work() noexcept {
    while (!stop_.load(std::memory_order_relaxed)) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      if (Status status = tasks_.run(index); !status) fail(index, std::move(status).error());
    }
  }
  // work() of another thread than the caller's.
  void help() noexcept {
    work();
    const std::lock_guard lock(mutex_);
    ++helped_;
    ended_.notify_one();
  }
  // Until that many threads have helped.
  void wait(std::size_t helpers, base::Cancellation& cancellation) noexcept {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kBetweenLooks, [&] { return helped_ == helpers; })) {
      lock.unlock();
      if (cancellation.requested()) return;
      lock.lock();
    }
  }
  // After all threads have ended.
  [[nodiscard]] Status result() noexcept {
    if (failed_ == count_) return {};
    return std::move(error_);
  }

 private:
  void fail(std::size_t index, Error error) noexcept {
    stop_.store(true, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (index >= failed_) return;
    failed_ = index;
    error_ = std::move(error);
  }

  Tasks& tasks_;
  const std::size_t count_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t helped_ = 0;
  std::size_t failed_;
  Error error_;
};

class Pieces final : public Tasks {
 public:
  Pieces(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
         base::Cancellation* cancellation) noexcept
      : source_(source), offset_(offset), destination_(destination), cancellation_(cancellation) {}
  [[nodiscard]] Status run(std::size_t index) noexcept override {
    const std::size_t begin = index * kReadPiece;
    return read_exactly(source_, offset_ + begin,
                        destination_.subspan(begin, std::min(kReadPiece, destination_.size() - begin)), cancellation_);
  }

 private:
  const Source& source_;
  std::uint64_t offset_;
  std::span<std::byte> destination_;
  base::Cancellation* cancellation_;
};

}  // namespace

Status run_parallel(Tasks& tasks, std::size_t count, unsigned threads, base::Cancellation* cancellation) noexcept {
  Run run(tasks, count);
  ThreadGroup helpers;
  const std::size_t wanted = std::min<std::size_t>(threads, count);
  if (wanted > 1) helpers.start(wanted - 1, [&run] { run.help(); });  // fewer threads do the same work
  run.work();
  if (cancellation != nullptr && cancellation->possible()) run.wait(helpers.size(), *cancellation);
  helpers.join();
  return run.result();
}

unsigned usable_processors() noexcept {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  // Fails on machines of more processors than the set holds: enough then.
  if (::sched_getaffinity(0, sizeof processors, &processors) != 0) return kMostThreads;
  return std::clamp(static_cast<unsigned>(CPU_COUNT(&processors)), 1U, kMostThreads);
}

Status read_parallel(const Source& source, std::uint64_t offset, std::span<std::byte> destination, unsigned threads,
                     base::Cancellation* cancellation) noexcept {
  const bool whole = destination.size() <= kReadPiece || (threads == 1 && cancellation == nullptr);
  if (whole) return read_exactly(source, offset, destination, cancellation);
  Pieces pieces(source, offset, destination, cancellation);
  const std::size_t count = (destination.size() + kReadPiece - 1) / kReadPiece;
  return run_parallel(pieces, count, threads == 0 ? usable_processors() : threads, cancellation);
}

}  // namespace safetensors::os
