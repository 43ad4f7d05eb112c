#include "io/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "io/posix_file.h"

namespace safetensors::io {
namespace {

constexpr unsigned kMostThreads = 16;

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
  std::size_t failed_;
  Error error_;
};

class Pieces final : public Tasks {
 public:
  Pieces(const Source& source, std::uint64_t offset, std::span<std::byte> destination) noexcept
      : source_(source), offset_(offset), destination_(destination) {}
  [[nodiscard]] Status run(std::size_t index) noexcept override {
    const std::size_t begin = index * kReadPiece;
    return read_exactly(source_, offset_ + begin,
                        destination_.subspan(begin, std::min(kReadPiece, destination_.size() - begin)));
  }

 private:
  const Source& source_;
  std::uint64_t offset_;
  std::span<std::byte> destination_;
};

}  // namespace

Status run_parallel(Tasks& tasks, std::size_t count, unsigned threads) noexcept {
  Run run(tasks, count);
  std::vector<std::thread> others;
  try {
    const std::size_t wanted = std::min<std::size_t>(threads, count);
    others.reserve(wanted);
    while (others.size() + 1 < wanted) others.emplace_back([&run] { run.work(); });
  } catch (const std::system_error&) {  // no more threads: those that there are do the work
  } catch (const std::bad_alloc&) {
  }
  run.work();
  for (std::thread& other : others) other.join();
  return run.result();
}

unsigned usable_processors() noexcept {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  // Fails on machines of more processors than the set holds: enough then.
  if (::sched_getaffinity(0, sizeof processors, &processors) != 0) return kMostThreads;
  return std::clamp(static_cast<unsigned>(CPU_COUNT(&processors)), 1U, kMostThreads);
}

Status read_parallel(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
                     unsigned threads) noexcept {
  if (destination.size() <= kReadPiece || threads == 1) return read_exactly(source, offset, destination);
  Pieces pieces(source, offset, destination);
  const std::size_t count = (destination.size() + kReadPiece - 1) / kReadPiece;
  return run_parallel(pieces, count, threads == 0 ? usable_processors() : threads);
}

}  // namespace safetensors::io
