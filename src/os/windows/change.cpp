// Writes files, and makes folders. rename.cpp renames and removes them.
#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "os/system.h"
#include "os/system_error.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace {

// Windows flushes a file only through a handle that may write. If this handle may not, the function opens the file
// again, if the permissions of the file allow that.
DWORD flush(HANDLE handle) noexcept {
  if (::FlushFileBuffers(handle)) return NO_ERROR;
  if (const DWORD error = ::GetLastError(); error != ERROR_ACCESS_DENIED) return error;
  const windows::Handle writable(
      ::ReOpenFile(handle, FILE_WRITE_DATA | SYNCHRONIZE, windows::kShareAll, FILE_FLAG_BACKUP_SEMANTICS));
  if (!writable.valid()) return ERROR_ACCESS_DENIED;
  return ::FlushFileBuffers(writable.get()) ? DWORD{NO_ERROR} : ::GetLastError();
}

}  // namespace

std::ptrdiff_t write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  DWORD count = 0;
  const DWORD error = windows::call_at(handle, offset, count, [&](OVERLAPPED* at) {
    return ::WriteFile(handle, bytes, static_cast<DWORD>(std::min(size, kMaxTransfer)), &count, at);
  });
  return error == NO_ERROR ? static_cast<std::ptrdiff_t>(count) : windows::fail(error);
}

// The file gets its space and its size. Some file systems only give it the size.
int preallocate(int descriptor, std::uint64_t size) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  FILE_ALLOCATION_INFO space;
  space.AllocationSize.QuadPart = static_cast<LONGLONG>(size);
  if (!::SetFileInformationByHandle(handle, FileAllocationInfo, &space, sizeof space)) {
    const DWORD error = ::GetLastError();
    if (error == ERROR_DISK_FULL || error == ERROR_HANDLE_DISK_FULL || error == windows::kQuotaExceeded)
      return windows::fail(error);
  }
  FILE_END_OF_FILE_INFO end;
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(size);
  return ::SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end) ? 0 : windows::fail();
}

// Some file systems refuse to flush a folder. Then the rename before is in the journal of NTFS: it is whole or absent
// after a power cut. So only a device that fails to flush a folder is an error.
int sync(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  const DWORD error = flush(handle);
  if (error == NO_ERROR) return 0;
  windows::fail(error);
  return windows::is_directory(handle) && errno != EIO ? 0 : -1;
}

// Permissions of Windows are lists, which a new file gets from its folder.
int change_mode(int, std::uint32_t) noexcept {
  return 0;
}

int change_owner(int, std::uint32_t, std::uint32_t) noexcept {
  return failed_with(EOPNOTSUPP);
}

int make_directory(int directory, const char* name, std::uint32_t) noexcept {
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  return ::CreateDirectoryW(path->c_str(), nullptr) ? 0 : windows::fail();
}

}  // namespace safetensors::os
