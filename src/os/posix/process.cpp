// Asks the system about the process. GRND_NONBLOCK: early in the boot getrandom() could wait.
#include "os/process.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "os/descriptor_pool.h"

namespace safetensors::os {

std::uint64_t process_id() noexcept {
  return static_cast<std::uint64_t>(::getpid());
}

std::uint64_t random_bits() noexcept {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random)) {
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
             process_id() << 40 ^ reinterpret_cast<std::uintptr_t>(&random);
  }
  return random;
}

void wait_for_signal() noexcept {
  (void)::pause();
}

std::size_t descriptor_limit() noexcept {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  const auto half = std::min<std::uint64_t>(limit.rlim_cur / 2, std::numeric_limits<std::size_t>::max());
  return std::max<std::size_t>(static_cast<std::size_t>(half), 1);
}

}  // namespace safetensors::os
