/* malloc_usable_size() of glibc, for macOS. */
#pragma once

#include <malloc/malloc.h>

static inline size_t malloc_usable_size(void* memory) {
  return malloc_size(memory);
}
