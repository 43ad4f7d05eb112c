// Translates what Windows tells about a handle to FileStatus.
//
// Permissions are those that a POSIX program would see: everybody may read, and nobody may write a file with the
// attribute "read-only". Files have no owner by number: all belong to user 0 and group 0. The volume and the number of
// the file identify it. Its change time is that of the metadata, as on other systems.
#include "os/file_status.h"

#include <cerrno>

#include "os/open.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace {

constexpr std::int64_t kTicksPerSecond = 10'000'000;  // a tick has 100 ns
constexpr std::int64_t kSecondsFrom1601To1970 = 11'644'473'600;

std::int64_t ticks_of(const LARGE_INTEGER& time) noexcept {
  return time.QuadPart - kSecondsFrom1601To1970 * kTicksPerSecond;
}

std::int64_t ticks_of(const FILETIME& time) noexcept {
  LARGE_INTEGER whole;
  whole.LowPart = time.dwLowDateTime;
  whole.HighPart = static_cast<LONG>(time.dwHighDateTime);
  return ticks_of(whole);
}

FileKind kind_of_disk_file(HANDLE handle, DWORD attributes) noexcept {
  if ((attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 && windows::link_tag(handle) != 0) return FileKind::symlink;
  return (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? FileKind::directory : FileKind::regular;
}

int status_of_handle(HANDLE handle, FileStatus& status) noexcept {
  if (handle == INVALID_HANDLE_VALUE) return -1;
  const DWORD type = ::GetFileType(handle);
  if (type != FILE_TYPE_DISK) {
    if (type == FILE_TYPE_UNKNOWN && ::GetLastError() != NO_ERROR) return windows::fail();
    status = {};
    status.kind = type == FILE_TYPE_PIPE   ? FileKind::fifo
                  : type == FILE_TYPE_CHAR ? FileKind::character_device
                                           : FileKind::unknown;
    status.permissions = 0666;
    return 0;
  }
  BY_HANDLE_FILE_INFORMATION found;
  if (!::GetFileInformationByHandle(handle, &found)) return windows::fail();
  FILE_BASIC_INFO times;
  const bool changed = ::GetFileInformationByHandleEx(handle, FileBasicInfo, &times, sizeof times) != 0;
  const std::int64_t modified = ticks_of(found.ftLastWriteTime);
  // Some file systems have no change time.
  const std::int64_t change = changed && times.ChangeTime.QuadPart != 0 ? ticks_of(times.ChangeTime) : modified;
  status = {};
  status.kind = kind_of_disk_file(handle, found.dwFileAttributes);
  status.permissions = (found.dwFileAttributes & FILE_ATTRIBUTE_READONLY) != 0 ? 0444U : 0666U;
  if (status.is_directory()) status.permissions = 0777;
  status.links = found.nNumberOfLinks;
  status.block_size = 4096;
  status.modified_seconds = modified / kTicksPerSecond;
  status.identity = {
      .device = found.dwVolumeSerialNumber,
      .inode = std::uint64_t{found.nFileIndexHigh} << 32 | found.nFileIndexLow,
      .size = status.is_directory() ? 0 : std::uint64_t{found.nFileSizeHigh} << 32 | found.nFileSizeLow,
      .changed_seconds = change / kTicksPerSecond,
      .changed_nanoseconds = change % kTicksPerSecond * 100,
  };
  return 0;
}

}  // namespace

int status_of(int descriptor, FileStatus& status) noexcept {
  return status_of_handle(windows::handle_of(descriptor), status);
}

int status_at(int directory, const char* name, Symlinks symlinks, FileStatus& status) noexcept {
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  const DWORD flags =
      FILE_FLAG_BACKUP_SEMANTICS | (symlinks == Symlinks::keep ? DWORD{FILE_FLAG_OPEN_REPARSE_POINT} : DWORD{0});
  const windows::Handle handle(
      ::CreateFileW(path->c_str(), FILE_READ_ATTRIBUTES, windows::kShareAll, nullptr, OPEN_EXISTING, flags, nullptr));
  if (!handle.valid()) return windows::fail();
  FileStatus found;
  if (status_of_handle(handle.get(), found) != 0) return -1;
  if (windows::wants_directory(name) && !found.is_directory()) {
    errno = ENOTDIR;
    return -1;
  }
  status = found;
  return 0;
}

int status_of_path(const char* path, Symlinks symlinks, FileStatus& status) noexcept {
  return status_at(kWorkingDirectory, path, symlinks, status);
}

}  // namespace safetensors::os
