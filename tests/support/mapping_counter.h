// Adds this program's mappings to the count of allocation_counter.h, because large memory is mapped, not allocated.
// Include it in one file of a program only, because it replaces mmap and munmap. The C library's own mappings are not
// counted.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "support/allocation_counter.h"

namespace allocations {

using Map = void* (*)(void*, std::size_t, int, int, int, off_t);
using Unmap = int (*)(void*, std::size_t);

// Finds the function at the first call, which a sanitizer may make before this program begins. If off_t is wider than a
// long, the headers give mmap another name.
inline Map system_map() noexcept {
  static const auto found = reinterpret_cast<Map>(::dlsym(RTLD_NEXT, sizeof(off_t) > sizeof(long) ? "mmap64" : "mmap"));
  return found;
}
inline Unmap system_unmap() noexcept {
  static const auto found = reinterpret_cast<Unmap>(::dlsym(RTLD_NEXT, "munmap"));
  return found;
}

inline std::size_t whole_pages(std::size_t size) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

}  // namespace allocations

extern "C" {

void* mmap(void* address, std::size_t length, int protection, int flags, int descriptor, off_t offset) noexcept {
  void* const made = allocations::system_map()(address, length, protection, flags, descriptor, offset);
  // A map of a file takes no memory of its own.
  if (made != MAP_FAILED && descriptor < 0) {
    const std::size_t now = allocations::live += allocations::whole_pages(length);
    if (now > allocations::highest) allocations::highest = now;
  }
  return made;
}
// Counts only anonymous memory, because the programs that count map no files.
int munmap(void* address, std::size_t length) noexcept {
  const int result = allocations::system_unmap()(address, length);
  if (result == 0) allocations::live -= allocations::whole_pages(length);
  return result;
}

}  // extern "C"
