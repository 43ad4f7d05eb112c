// One processor, no threads, and no clock of a thread.
#include "os/process.h"

#include <cerrno>
#include <chrono>
#include <functional>

#include "os/available_memory.h"
#include "os/descriptor_pool.h"
#include "os/thread_group.h"
#include "os/thread_usage.h"

namespace safetensors::os {

std::uint64_t process_id() noexcept {
  return 1;
}

unsigned allowed_processors() noexcept {
  return 1;
}

std::uint64_t random_bits() noexcept {
  std::uint64_t random = 0;
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) << 20 ^
         reinterpret_cast<std::uintptr_t>(&random);
}

void wait_for_signal() noexcept {}

std::size_t descriptor_limit() noexcept {
  return 1;
}

std::optional<std::uint64_t> available_memory() {
  return std::nullopt;
}

std::chrono::nanoseconds thread_cpu_time() noexcept {
  return {};
}

ThreadClock::ThreadClock() noexcept = default;

ThreadUsage ThreadClock::lap() noexcept {
  return begin_;
}

int ThreadGroup::start(std::size_t count, const std::function<void()>&) noexcept {
  return count == 0 ? 0 : ENOSYS;
}

void ThreadGroup::join() noexcept {}

}  // namespace safetensors::os
