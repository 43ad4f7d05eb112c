// Runs tasks on threads that live only as long as the call. Threads take the next index from an atomic counter, so a
// slow task does not delay the others.
//
// There is no thread pool: it would be global state, and the child of a fork would have a pool without threads.
#include "os/parallel.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/exceptions.h"
#include "os/process.h"
#include "os/regular_file.h"

namespace safetensors::os {
namespace {

constexpr unsigned kMaxThreads = 16;
constexpr std::chrono::milliseconds kCheckInterval{20};  // between checks for cancellation by the waiting thread

class Run {
 public:
  Run(const detail::Task& task, std::size_t count) noexcept : task_(task), count_(count), failed_(count) {}

  void work() noexcept {
    while (!stop_.load(std::memory_order_relaxed)) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      if (Status status = base::guarded([&] { return task_(index); }); !status) fail(index, std::move(status));
    }
  }
  // The work of every thread except the caller's.
  void work_and_notify() noexcept {
    work();
    const std::lock_guard lock(mutex_);
    ++finished_;
    ended_.notify_one();
  }
  // Waits until that many threads have finished, or until the caller cancels. It releases the mutex while it asks the
  // caller, because the caller's function can take long and a failing thread needs the mutex.
  void wait(std::size_t threads, base::Cancellation& cancellation) noexcept {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kCheckInterval, [&] { return finished_ == threads; })) {
      lock.unlock();
      if (cancellation.requested()) return;
      lock.lock();
    }
  }
  // Must run after all threads have ended.
  [[nodiscard]] Status result() noexcept { return std::move(failure_); }

 private:
  void fail(std::size_t index, Status failure) noexcept {
    stop_.store(true, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (index >= failed_) return;
    failed_ = index;
    failure_ = std::move(failure);
  }

  const detail::Task& task_;
  const std::size_t count_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t finished_ = 0;
  std::size_t failed_;  // the lowest index that failed, or count_
  Status failure_;
};

}  // namespace

// A thread that the system refuses is not an error here: most callers do the same work with fewer threads.
int ThreadGroup::start(std::size_t count, const std::function<void()>& work) noexcept {
  const auto start_all = [&] {
    threads_.reserve(threads_.size() + count);
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back(work);
    return 0;
  };
  return base::caught<std::bad_alloc>(
      [&] {
        return base::caught<std::system_error>(start_all,
                                               [](const std::system_error& error) { return error.code().value(); });
      },
      [](const std::bad_alloc&) { return ENOMEM; });
}

void ThreadGroup::join() noexcept {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Status detail::run_parallel(std::size_t count, unsigned threads, const Task& task,
                            base::Cancellation* cancellation) noexcept {
  Run run(task, count);
  ThreadGroup helpers;
  const std::size_t wanted = std::min<std::size_t>(threads, count);
  if (wanted > 1) helpers.start(wanted - 1, [&run] { run.work_and_notify(); });  // fewer threads do the same work
  run.work();
  if (cancellation != nullptr && cancellation->possible()) run.wait(helpers.size(), *cancellation);
  helpers.join();
  return run.result();
}

unsigned usable_processors() noexcept {
  return std::clamp(allowed_processors(), 1U, kMaxThreads);
}

Status read_parallel(const Source& source, std::uint64_t offset, std::span<std::byte> destination, unsigned threads,
                     base::Cancellation* cancellation) noexcept {
  if (!source.concurrent()) threads = 1;
  std::size_t chunk = kReadChunk;
  if (const std::uint64_t wanted = source.request_bytes(); wanted != 0)
    chunk = std::max(chunk, static_cast<std::size_t>(std::min<std::uint64_t>(wanted, destination.size())));
  const bool whole = destination.size() <= chunk || (threads == 1 && cancellation == nullptr);
  if (whole) return read_exactly(source, offset, destination, cancellation);
  const auto read = [&](std::size_t index) {
    const std::size_t begin = index * chunk;
    return read_exactly(source, offset + begin, destination.subspan(begin, std::min(chunk, destination.size() - begin)),
                        cancellation);
  };
  const std::size_t count = (destination.size() - 1) / chunk + 1;
  return run_parallel(count, threads == 0 ? usable_processors() : threads, read, cancellation);
}

}  // namespace safetensors::os
