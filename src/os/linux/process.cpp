// Counts the processors in the affinity mask of this thread, and gets random bits. GRND_NONBLOCK: early in the boot
// getrandom() could wait.
#include <sched.h>
#include <sys/random.h>

#include <chrono>
#include <cstdint>
#include <limits>

#include "os/process.h"

namespace safetensors::os {

unsigned allowed_processors() noexcept {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  // The call fails on machines with more processors than the set can hold (1024). They have enough processors.
  if (::sched_getaffinity(0, sizeof processors, &processors) != 0) return std::numeric_limits<unsigned>::max();
  return static_cast<unsigned>(CPU_COUNT(&processors));
}

std::uint64_t random_bits() noexcept {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random)) {
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
             process_id() << 40 ^ reinterpret_cast<std::uintptr_t>(&random);
  }
  return random;
}

}  // namespace safetensors::os
