// Asks Windows about the process and its threads.
#include "os/process.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <ctime>

#include "os/available_memory.h"
#include "os/descriptor.h"
#include "os/thread_usage.h"
#include "os/windows/native.h"

#include <bcrypt.h>

namespace safetensors::os {
namespace {

std::int64_t processor_ticks_of(const FILETIME& time) noexcept {
  return static_cast<std::int64_t>(std::uint64_t{time.dwHighDateTime} << 32 | time.dwLowDateTime);
}

}  // namespace

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

std::optional<std::uint64_t> available_memory() {
  MEMORYSTATUSEX status;
  status.dwLength = sizeof status;
  if (!::GlobalMemoryStatusEx(&status)) return std::nullopt;
  return std::min(status.ullAvailPhys, status.ullAvailPageFile);
}

ThreadUsage thread_usage() noexcept {
  FILETIME created, ended, system, user;
  if (!::GetThreadTimes(::GetCurrentThread(), &created, &ended, &system, &user)) return {};
  const std::int64_t ticks = processor_ticks_of(system) + processor_ticks_of(user);  // of 100 ns
  return {static_cast<double>(ticks) / 1e7, 0};  // Windows counts faults per process only
}

}  // namespace safetensors::os
