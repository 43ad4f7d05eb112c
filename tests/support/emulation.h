// The gaps of emulators of another machine's system calls (qemu-user). This is the only list of them. The function of
// each entry looks for the gap itself, so a test runs in full where the gap does not exist.
//  - mmap() drops the high half of an offset on 32-bit machines, so it maps other bytes of the file.
//  - statx() says that no file can be read past the page cache: see denies_direct_io().
//  - setrlimit() sets no limit of memory and succeeds.
//  - prctl() installs no seccomp filter: tests that need one ask for it.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "os/system.h"

namespace safetensors::test {

inline constexpr const char* kDropsLargeOffsets = "mmap() drops the high half of offsets: it is not emulated";
inline constexpr const char* kIgnoresMemoryLimits = "limits of memory are not emulated";

// Sets a limit of 2 GiB in a child process and reads it again.
inline bool ignores_memory_limits() {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit wanted{rlim_t{1} << 31, rlim_t{1} << 31};
    rlimit found{};
    const bool refused = ::setrlimit(RLIMIT_AS, &wanted) != 0;
    ::_exit(refused || (::getrlimit(RLIMIT_AS, &found) == 0 && found.rlim_cur == wanted.rlim_cur) ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status != 0;
}

// Maps a file at 4 GiB, and looks whether the byte from its start appears there.
inline bool drops_large_offsets() {
  constexpr off_t kLarge = off_t{1} << 32;
  std::FILE* const file = std::tmpfile();
  if (file == nullptr) return false;
  bool drops = false;
  if (std::fputc('x', file) == 'x' && std::fflush(file) == 0 && ::ftruncate(::fileno(file), kLarge + 1) == 0) {
    void* const memory = ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, ::fileno(file), kLarge);
    if (memory != MAP_FAILED) {
      drops = *static_cast<const char*>(memory) == 'x';
      ::munmap(memory, 1);
    }
  }
  std::fclose(file);
  return drops;
}

// File systems without direct I/O give the same answer.
inline bool denies_direct_io(int descriptor) {
  os::DirectAlignment alignment;
  return os::direct_alignment(descriptor, alignment) == 0 && alignment.known && alignment.memory == 0;
}

}  // namespace safetensors::test
