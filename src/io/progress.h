// Tells the caller how many bytes are written.
#pragma once

#include <safetensors/callback.h>
#include <safetensors/error.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"

namespace safetensors::io {

// Called with the number of bytes written and the total, of all files. Return false to cancel.
using Progress = Callback<bool(std::uint64_t done, std::uint64_t total)>;

// Minimum and maximum number of bytes that a writer writes between two reports of progress.
inline constexpr std::uint64_t kMinBytesPerReport = std::uint64_t{8} << 20;
inline constexpr std::size_t kMaxBytesPerReport = std::size_t{16} << 20;

// Counts the bytes that all threads write, and calls the progress function. It never runs twice at once. Thread-safe.
class ProgressMeter {
 public:
  // done: bytes that count as written from the start. path: only for errors. reporter: the only thread that calls
  // progress. By default every thread does.
  ProgressMeter(Progress progress, std::uint64_t total, std::uint64_t done, std::string_view path,
                std::thread::id reporter = {})
      : progress_(std::move(progress)), total_(total), path_(path), reporter_(reporter), done_(done) {}

  // Counts bytes that were written. Error: cancelled, on every thread after progress has returned false.
  [[nodiscard]] Status add(std::uint64_t written) {
    done_ += written;
    const bool silent = reporter_ != std::thread::id() && reporter_ != std::this_thread::get_id();
    if (silent && !cancelled_) return {};
    const std::lock_guard lock(mutex_);
    const std::uint64_t done = done_;
    return cancelled_ || done - reported_ >= kMinBytesPerReport || done == total_ ? report(done) : Status();
  }
  // Calls progress even if no byte was written since the last call, so that a caller who waits can cancel. Returns
  // whether progress has returned false.
  [[nodiscard]] bool ask() {
    const std::lock_guard lock(mutex_);
    if (progress_ && !cancelled_) call(done_);
    return cancelled_;
  }
  // Reports the total if no call has reported it. Error: cancelled.
  [[nodiscard]] Status finish() {
    const std::lock_guard lock(mutex_);
    return report(total_);
  }

  // Calls step(offset, size) for the range [0, size), in order, and counts its bytes. Without a progress function,
  // calls it once. With one, calls it for at most kMaxBytesPerReport bytes at a time. An empty range is one step.
  template <class Step>
  [[nodiscard]] Status in_steps(std::uint64_t size, Step step) {
    const std::uint64_t max = progress_ ? kMaxBytesPerReport : size;
    std::uint64_t at = 0;
    do {
      const std::uint64_t bytes = std::min(max, size - at);
      if (Status status = step(at, bytes); !status || bytes == 0) return status;
      if (Status status = add(bytes); !status) return status;
      at += bytes;
    } while (at < size);
    return {};
  }

 private:
  // The caller of these two functions must hold mutex_.
  Status report(std::uint64_t done) {
    if (progress_ && !cancelled_ && done != reported_) call(done);
    return cancelled_ ? Status(base::cancelled(reported_, total_, path_)) : Status();
  }
  void call(std::uint64_t done) {
    reported_ = done;
    cancelled_ = !progress_(done, total_);
  }

  const Progress progress_;
  const std::uint64_t total_;
  const std::string path_;
  const std::thread::id reporter_;
  std::atomic<std::uint64_t> done_;
  std::atomic<bool> cancelled_{false};  // progress has returned false, and is not called again
  std::mutex mutex_;                    // held while progress_ runs; guards reported_
  std::uint64_t reported_ = 0;
};

}  // namespace safetensors::io
