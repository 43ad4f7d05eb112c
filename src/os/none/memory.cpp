// Pages of memory from operator new. A part of an allocation cannot return alone, so each allocation counts the bytes
// whose owners have given them back, and returns with the last of them.
#include "os/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#include "base/error.h"

namespace safetensors::os {
namespace {

// Lies behind the last page.
struct Allocation {
  Allocation* next;
  std::byte* begin;
  std::size_t size;
  std::size_t live;  // bytes
};

std::mutex mutex;
Allocation* first = nullptr;

}  // namespace

std::size_t page_size() noexcept {
  return 4096;
}

bool fits_in_machine(std::uint64_t size) noexcept {
  return size <= static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max());
}

Pages map_pages(std::uint64_t size) noexcept {
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) - 2 * kHugePage) return {};
  const std::size_t length = (static_cast<std::size_t>(size) + page_size() - 1) / page_size() * page_size();
  void* const memory = ::operator new(length + sizeof(Allocation), std::align_val_t(kHugePage), std::nothrow);
  if (memory == nullptr) return {};
  std::memset(memory, 0, length);
  auto* const begin = static_cast<std::byte*>(memory);
  const std::lock_guard lock(mutex);
  first = ::new (begin + length) Allocation{first, begin, length, length};
  return {begin, length, false};
}

bool unmap_pages(const Pages& pages) noexcept {
  if (pages.begin == nullptr) return true;
  const std::lock_guard lock(mutex);
  for (Allocation** link = &first; *link != nullptr; link = &(*link)->next) {
    Allocation* const found = *link;
    if (pages.begin < found->begin || pages.begin >= found->begin + found->size) continue;
    found->live -= pages.size;
    if (found->live == 0) {
      *link = found->next;
      ::operator delete(found->begin, std::align_val_t(kHugePage));
    }
    return true;
  }
  return false;
}

void discard_pages(std::span<std::byte> pages) noexcept {
  std::memset(pages.data(), 0, pages.size());
}

void* map_file(int, std::uint64_t, std::size_t, MapMode) noexcept {
  errno = ENOSYS;
  return nullptr;
}

bool maps_disturb_writers() noexcept {
  return false;
}

void unmap_file(void*, std::size_t) noexcept {}

Status populate(std::span<const std::byte>) noexcept {
  return {};
}

Status advise(std::span<const std::byte>, PageAdvice) noexcept {
  return base::guarded([]() -> Status {
    return base::make_error(Errc::unsupported, "cannot give advice on pages: this build has no operating system");
  });
}

Status lock_pages(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return {};
  return base::guarded([]() -> Status {
    return base::make_error(Errc::unsupported, "cannot lock bytes in memory: this build has no operating system");
  });
}

void unlock_pages(std::span<const std::byte>) noexcept {}

void give_up_pages(std::span<const std::byte>) noexcept {}

}  // namespace safetensors::os
