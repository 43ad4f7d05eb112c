// Asks Windows about the process.
#include "os/process.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "os/descriptor.h"
#include "os/windows/native.h"

#include <bcrypt.h>

namespace safetensors::os {

std::uint64_t process_id() noexcept {
  return ::GetCurrentProcessId();
}

// The mask is 0 if the process uses several groups of processors: then it has no limit.
unsigned allowed_processors() noexcept {
  DWORD_PTR allowed = 0, all = 0;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &allowed, &all) && allowed != 0)
    return static_cast<unsigned>(std::popcount(allowed));
  return std::max(1U, static_cast<unsigned>(::GetActiveProcessorCount(ALL_PROCESSOR_GROUPS)));
}

std::uint64_t random_bits() noexcept {
  std::uint64_t random = 0;
  if (::BCryptGenRandom(nullptr, reinterpret_cast<PUCHAR>(&random), sizeof random, BCRYPT_USE_SYSTEM_PREFERRED_RNG) < 0)
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
             process_id() << 40 ^ reinterpret_cast<std::uintptr_t>(&random);
  return random;
}

void wait_for_signal() noexcept {
  ::Sleep(INFINITE);
}

// The C library allows 2,048 descriptors (msvcrt) or 8,192 (the universal one).
std::size_t descriptor_limit() noexcept {
  return 1024;
}

}  // namespace safetensors::os
