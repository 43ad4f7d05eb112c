// The calls of System that read, write and change open files.
#include "os/system.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

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

int unsupported() noexcept {
  errno = EOPNOTSUPP;
  return -1;
}

}  // namespace

const bool DescriptorPath::kLeadsToSameFile = false;

DescriptorPath::DescriptorPath(int descriptor) noexcept {
  std::memcpy(text, "<", 2);  // after a failure: no file has this name
  try {
    const std::string path = windows::to_utf8(windows::path_of(windows::handle_of(descriptor)));
    if (path.size() < sizeof text) std::memcpy(text, path.c_str(), path.size() + 1);
  } catch (const std::bad_alloc&) {
  }
}

int System::open_at(int directory, const char* name, OpenFlags flags, std::uint32_t permissions) noexcept {
  return os::open_at(directory, name, flags, permissions);
}

int System::close(int descriptor) noexcept {
  return windows::close_descriptor(descriptor);
}

std::ptrdiff_t System::write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  DWORD count = 0;
  const DWORD error = windows::call_at(handle, offset, count, [&](OVERLAPPED* at) {
    return ::WriteFile(handle, bytes, static_cast<DWORD>(std::min(size, windows::kMaxTransfer)), &count, at);
  });
  return error == NO_ERROR ? static_cast<std::ptrdiff_t>(count) : windows::fail(error);
}

std::ptrdiff_t System::read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  return os::read_at(descriptor, bytes, size, offset);
}

std::ptrdiff_t System::copy_range(int, std::uint64_t, int, std::uint64_t, std::size_t) noexcept {
  return unsupported();
}

// Offsets and buffers must be multiples of a sector.
int System::direct_alignment(int descriptor, DirectAlignment& alignment) noexcept {
  alignment = {};
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  FILE_STORAGE_INFO storage;
  if (!::GetFileInformationByHandleEx(handle, FileStorageInfo, &storage, sizeof storage)) return 0;
  const auto sector = static_cast<std::uint32_t>(storage.LogicalBytesPerSector);
  if (sector != 0) alignment = {.known = true, .memory = sector, .offset = sector};
  return 0;
}

// The file gets its space and its size. Some file systems only give it the size.
int System::preallocate(int descriptor, std::uint64_t size) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
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

int System::start_writeback(int) noexcept {
  return unsupported();
}

// Some file systems refuse to flush a folder. Then the rename before is in the journal of NTFS: it is whole or absent
// after a power cut. So only a device that fails to flush a folder is an error.
int System::sync(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  const DWORD error = flush(handle);
  if (error == NO_ERROR) return 0;
  windows::fail(error);
  return windows::is_directory(handle) && errno != EIO ? 0 : -1;
}

int System::sync_file_system(int) noexcept {
  return unsupported();
}

// Permissions of Windows are lists, which a new file gets from its folder.
int System::change_mode(int, std::uint32_t) noexcept {
  return 0;
}

int System::change_owner(int, std::uint32_t, std::uint32_t) noexcept {
  return unsupported();
}

int System::make_directory(int directory, const char* name, std::uint32_t) noexcept {
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  return ::CreateDirectoryW(path->c_str(), nullptr) ? 0 : windows::fail();
}

int System::link_at(int, int, const char*) noexcept {
  return unsupported();
}

bool System::linkable(int) noexcept {
  return false;
}

int System::duplicate(int descriptor) noexcept {
  return windows::duplicate(descriptor);
}

}  // namespace safetensors::os
