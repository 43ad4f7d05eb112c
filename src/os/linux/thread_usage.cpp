// Measures the cost of one thread with getrusage(RUSAGE_THREAD), which counts only the calling thread. Its times are
// multiples of a tick on some systems, so single calls are timed by the clock of the thread.
#include "os/thread_usage.h"

#include <sys/resource.h>
#include <time.h>

#include <chrono>
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

std::chrono::nanoseconds thread_cpu_time() noexcept {
  struct timespec now {};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

ThreadClock::ThreadClock() noexcept : begin_(now()) {}

ThreadUsage ThreadClock::lap() noexcept {
  const ThreadUsage begin = std::exchange(begin_, now());
  return {begin_.cpu_seconds - begin.cpu_seconds, begin_.page_faults - begin.page_faults};
}

}  // namespace safetensors::os
