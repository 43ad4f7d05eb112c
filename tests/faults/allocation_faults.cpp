// The malloc family and mmap of a program under test. They count calls, and fail the call that injection.h chooses. The
// C library lets a program replace its malloc as a whole. The replacements call the C library's own functions by other
// names.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "faults/counting.h"

extern "C" {
void* __libc_malloc(std::size_t size);                           // NOLINT: the C library's names
void* __libc_calloc(std::size_t count, std::size_t size);        // NOLINT
void* __libc_realloc(void* memory, std::size_t size);            // NOLINT
void* __libc_memalign(std::size_t alignment, std::size_t size);  // NOLINT
}

namespace safetensors::test::faults {
namespace {

using Map = void* (*)(void*, std::size_t, int, int, int, off_t);
using Unmap = int (*)(void*, std::size_t);

std::atomic<std::int64_t> mapped{0};

void* refuse() noexcept {
  errno = ENOMEM;
  return nullptr;
}

std::int64_t whole_pages(std::size_t size) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return static_cast<std::int64_t>((size + page - 1) / page * page);
}

// Found before the first fault: looking for them may allocate.
const auto system_map = reinterpret_cast<Map>(::dlsym(RTLD_NEXT, "mmap"));
const auto system_unmap = reinterpret_cast<Unmap>(::dlsym(RTLD_NEXT, "munmap"));

}  // namespace

std::int64_t mapped_bytes() {
  return mapped.load();
}

}  // namespace safetensors::test::faults

namespace faults = safetensors::test::faults;

extern "C" {

void* malloc(std::size_t size) noexcept {
  return faults::fail_allocation() ? faults::refuse() : __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  return faults::fail_allocation() ? faults::refuse() : __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  return faults::fail_allocation() ? faults::refuse() : __libc_realloc(memory, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  return faults::fail_allocation() ? faults::refuse() : __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  void* const made = memalign(alignment, size);
  if (made == nullptr) return ENOMEM;
  *memory = made;
  return 0;
}

// Only the library's own calls: the C library maps stacks and its heap without this function.
void* mmap(void* address, std::size_t length, int protection, int flags, int descriptor, off_t offset) noexcept {
  if (faults::fail_allocation()) return faults::refuse(), MAP_FAILED;
  void* const made = faults::system_map(address, length, protection, flags, descriptor, offset);
  if (made != MAP_FAILED) faults::mapped += faults::whole_pages(length);
  return made;
}
// Counts also where the system refuses: the library can do no more than ask.
int munmap(void* address, std::size_t length) noexcept {
  faults::mapped -= faults::whole_pages(length);
  return faults::system_unmap(address, length);
}

}  // extern "C"
