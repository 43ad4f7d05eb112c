// Pages of memory with VirtualAlloc(), and maps of files. These functions never use large pages, because Windows gives
// them only to users with a privilege.
#include "os/memory.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include "base/error.h"
#include "os/system_error.h"
#include "os/windows/native.h"

namespace safetensors::os {

// Maps begin at a multiple of the granularity of allocations (64 KiB), which is larger than a page.
std::size_t page_size() noexcept {
  static const std::size_t size = [] {
    SYSTEM_INFO info;
    ::GetSystemInfo(&info);
    return info.dwAllocationGranularity;
  }();
  return size;
}

bool fits_in_machine(std::uint64_t size) noexcept {
  MEMORYSTATUSEX status;
  status.dwLength = sizeof status;
  return !::GlobalMemoryStatusEx(&status) || size <= status.ullTotalPageFile;  // memory and page files together
}

std::uint64_t memory_size() {
  MEMORYSTATUSEX status;
  status.dwLength = sizeof status;
  return ::GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

// VirtualAlloc() does not align to kHugePage. So addresses for kHugePage bytes more are reserved, and only the aligned
// range in them gets memory.
Pages map_pages(std::uint64_t size, bool) noexcept {
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) - 2 * kHugePage ||
      !fits_in_machine(size))
    return {};
  const std::size_t length = (static_cast<std::size_t>(size) + page_size() - 1) / page_size() * page_size();
  void* const reserved = ::VirtualAlloc(nullptr, length + kHugePage, MEM_RESERVE, PAGE_NOACCESS);
  if (reserved == nullptr) return {};
  const auto address = (reinterpret_cast<std::uintptr_t>(reserved) + kHugePage - 1) / kHugePage * kHugePage;
  void* const begin = ::VirtualAlloc(reinterpret_cast<void*>(address), length, MEM_COMMIT, PAGE_READWRITE);
  if (begin != nullptr) return {static_cast<std::byte*>(begin), length};
  (void)::VirtualFree(reserved, 0, MEM_RELEASE);
  return {};
}

bool maps_exhausted() noexcept {
  return false;
}

// The allocation begins before the aligned range.
void unmap_pages(const Pages& pages) noexcept {
  MEMORY_BASIC_INFORMATION found;
  if (pages.begin != nullptr && ::VirtualQuery(pages.begin, &found, sizeof found) != 0)
    (void)::VirtualFree(found.AllocationBase, 0, MEM_RELEASE);
}

// To decommit pages and to commit them again can fail in between. After MEM_RESET the system may drop the pages, and
// the unlock removes them from the working set at once. It fails, as the pages are not locked, and does its work.
void discard_pages(std::span<std::byte> pages) noexcept {
  if (pages.empty() || ::VirtualAlloc(pages.data(), pages.size(), MEM_RESET, PAGE_READWRITE) == nullptr) return;
  (void)::VirtualUnlock(pages.data(), pages.size());
}

void* map_file(int descriptor, std::uint64_t offset, std::size_t size, MapMode mode) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return nullptr;
  const bool shared = mode == MapMode::shared;
  const windows::Handle section(
      ::CreateFileMappingW(handle, nullptr, shared ? PAGE_READONLY : PAGE_WRITECOPY, 0, 0, nullptr));
  void* view = nullptr;
  if (section.valid())
    view = ::MapViewOfFile(section.get(), shared ? FILE_MAP_READ : FILE_MAP_COPY, static_cast<DWORD>(offset >> 32),
                           static_cast<DWORD>(offset), size);
  if (view == nullptr) windows::fail();
  return view;
}

// While a file is mapped, Windows lets nobody make it shorter, and some file systems let nobody replace it.
bool maps_disturb_writers() noexcept {
  return true;
}

void unmap_file(void* begin, std::size_t) noexcept {
  (void)::UnmapViewOfFile(begin);
}

// For pages that are not locked, this call removes them from the working set of the process.
void give_up_pages(std::span<const std::byte> mapped) noexcept {
  if (!mapped.empty()) (void)::VirtualUnlock(const_cast<std::byte*>(mapped.data()), mapped.size());
}

}  // namespace safetensors::os
