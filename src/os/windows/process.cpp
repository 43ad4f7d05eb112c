// Asks Windows about the process.
#include "os/process.h"

#include <algorithm>
#include <bit>

#include "os/descriptor.h"
#include "os/windows/native.h"

namespace safetensors::os {

// The mask is 0 if the process uses several groups of processors: then it has no limit.
unsigned allowed_processors() noexcept {
  DWORD_PTR allowed = 0, all = 0;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &allowed, &all) && allowed != 0)
    return static_cast<unsigned>(std::popcount(allowed));
  return std::max(1U, static_cast<unsigned>(::GetActiveProcessorCount(ALL_PROCESSOR_GROUPS)));
}

void wait_for_signal() noexcept {
  ::Sleep(INFINITE);
}

// The C library allows 2,048 descriptors (msvcrt) or 8,192 (the universal one).
std::size_t descriptor_limit() noexcept {
  return 1024;
}

}  // namespace safetensors::os
