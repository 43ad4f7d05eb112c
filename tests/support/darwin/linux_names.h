/* Names of Linux that tests use, for macOS. Each means what comes closest: a test that asks for direct reads, or for an
 * empty page cache, then skips itself. Included before every file of the tests. */
#pragma once

#include <fcntl.h>
#include <math.h>
#undef _LIBCPP_FLOAT_H /* math.h took only a part of float.h, and the guard of libc++ 20 then hides the rest */
#include <float.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define O_DIRECT 0x40000000 /* a bit that open() ignores */
#define O_PATH 0            /* macOS opens a folder for reading instead */
#define SOCK_CLOEXEC 0
#define st_mtim st_mtimespec
#define st_ctim st_ctimespec
#define POSIX_FADV_DONTNEED 4

static inline int fdatasync(int descriptor) {
  return fsync(descriptor);
}

static inline int posix_fadvise(int descriptor, off_t offset, off_t size, int advice) {
  (void)descriptor, (void)offset, (void)size, (void)advice;
  return 45; /* ENOTSUP */
}

#ifdef __cplusplus
inline int mincore(void* address, size_t size, unsigned char* pages) {
  return mincore(address, size, reinterpret_cast<char*>(pages));
}
#endif
