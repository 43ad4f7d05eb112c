// Asks the system about the process.
#include "os/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "os/descriptor.h"

namespace safetensors::os {

std::uint64_t process_id() noexcept {
  return static_cast<std::uint64_t>(::getpid());
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
