// What emulators of another machine's system calls (qemu-user) do not do. This is the one list. Each entry looks for
// the gap itself, so that a test runs in full where there is none.
//  - madvise() does nothing and succeeds: pages are not populated.
//  - mmap() drops the high half of an offset on 32-bit machines, so it maps other bytes of the file.
//  - statx() says that no file can be read past the page cache: see denies_direct_io().
//  - A signal handler leaves its thread with the thread-local memory of the thread that was made last (i386 only).
//  - setrlimit() sets no limit of memory and succeeds.
//  - prctl() installs no seccomp filter: tests that need one ask for it.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include "io/system.h"

namespace safetensors::test {

inline constexpr const char* kIgnoresAdvice = "madvise() is not emulated";
inline constexpr const char* kDropsLargeOffsets = "mmap() drops the high half of offsets: it is not emulated";

inline constexpr const char* kIgnoresMemoryLimits = "limits of memory are not emulated";
inline constexpr const char* kMixesThreads = "a signal handler mixes up the memory of threads: it is not emulated";

// No system knows this advice.
inline bool ignores_advice() {
  const long page = ::sysconf(_SC_PAGESIZE);
  void* const memory = ::mmap(nullptr, static_cast<std::size_t>(page), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool ignores = ::madvise(memory, static_cast<std::size_t>(page), 12345) == 0;
  ::munmap(memory, static_cast<std::size_t>(page));
  return ignores;
}

// In a child. A limit of 2 GiB can be read again where it was set.
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

// A file with a mark at its start: is it seen at 4 GiB, too?
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

// In a child: the harm would stay.
inline bool mixes_threads() {
#if !defined(__i386__)
  return false;
#endif
  static thread_local volatile int own = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    own = 1;
    std::thread([] {}).join();
    (void)std::signal(SIGUSR2, [](int) {});
    (void)std::raise(SIGUSR2);
    ::_exit(own == 1 ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status != 0;
}

// File systems that cannot do it say the same.
inline bool denies_direct_io(int descriptor) {
  io::DirectAlignment alignment;
  return io::real_system().direct_alignment(descriptor, alignment) == 0 && alignment.known && alignment.memory == 0;
}

}  // namespace safetensors::test
