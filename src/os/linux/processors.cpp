// Counts the processors in the affinity mask of this thread.
#include <sched.h>

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

}  // namespace safetensors::os
