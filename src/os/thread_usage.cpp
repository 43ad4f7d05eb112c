// Measures the cost of one thread with getrusage(RUSAGE_THREAD), which counts only the calling thread.
#include "os/thread_usage.h"

#include <sys/resource.h>

#include <utility>

namespace safetensors::os {
namespace {

double seconds(const timeval& time) noexcept {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

ThreadUsage now() noexcept {
  rusage usage{};
  (void)::getrusage(RUSAGE_THREAD, &usage);
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), static_cast<std::uint64_t>(usage.ru_minflt)};
}

}  // namespace

ThreadClock::ThreadClock() noexcept : begin_(now()) {}

ThreadUsage ThreadClock::lap() noexcept {
  const ThreadUsage begin = std::exchange(begin_, now());
  return {begin_.cpu_seconds - begin.cpu_seconds, begin_.page_faults - begin.page_faults};
}

}  // namespace safetensors::os
