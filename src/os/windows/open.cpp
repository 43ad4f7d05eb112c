// Opens files with CreateFile(), and wraps their handles in descriptors of the C library.
//
// Every file is open for all kinds of sharing, so that another program may rename or remove it, as on other systems. A
// read takes its offset with the call. It moves the position of the handle, too, but nothing here uses the position.
#include "os/open.h"

#include <fcntl.h>
#include <io.h>

#include <cerrno>
#include <new>

#include "os/windows/native.h"

namespace safetensors::os {
namespace {

DWORD access_of(OpenFlags flags) noexcept {
  DWORD access = FILE_READ_ATTRIBUTES | SYNCHRONIZE;
  if (has(flags, OpenFlags::read)) access |= has(flags, OpenFlags::directory) ? FILE_LIST_DIRECTORY : GENERIC_READ;
  if (has(flags, OpenFlags::write)) access |= GENERIC_WRITE;
  return access;
}

DWORD disposition_of(OpenFlags flags) noexcept {
  if (has(flags, OpenFlags::create)) {
    if (has(flags, OpenFlags::only_new)) return CREATE_NEW;
    return OPEN_ALWAYS;
  }
  return OPEN_EXISTING;
}

DWORD attributes_of(OpenFlags flags) noexcept {
  DWORD attributes = FILE_ATTRIBUTE_NORMAL;
  if (!has(flags, OpenFlags::write)) attributes |= FILE_FLAG_BACKUP_SEMANTICS;  // else no directory can be opened
  if (has(flags, OpenFlags::no_follow)) attributes |= FILE_FLAG_OPEN_REPARSE_POINT;
  if (has(flags, OpenFlags::direct)) attributes |= FILE_FLAG_NO_BUFFERING;
  return attributes;
}

// Checks that the open file is of the kind that the flags demand. Truncates the file if the flags demand it. Returns 0,
// or an error number.
int check_kind(HANDLE handle, OpenFlags flags) noexcept {
  BY_HANDLE_FILE_INFORMATION found;
  if (!::GetFileInformationByHandle(handle, &found)) return 0;
  const bool directory = (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  if (has(flags, OpenFlags::directory) && !directory) return ENOTDIR;
  FILE_ATTRIBUTE_TAG_INFO tag{};
  const bool link = (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
                    ::GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) &&
                    (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK || tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
  if (has(flags, OpenFlags::no_follow) && link) return ELOOP;
  FILE_END_OF_FILE_INFO empty{};
  if (has(flags, OpenFlags::truncate) &&
      !::SetFileInformationByHandle(handle, FileEndOfFileInfo, &empty, sizeof empty)) {
    windows::fail();
    return errno;
  }
  return 0;
}

}  // namespace

const int kWorkingDirectory = -100;

int open_at(int directory, const char* name, OpenFlags flags, std::uint32_t) noexcept {
  if (has(flags, OpenFlags::unnamed)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  windows::Handle handle(::CreateFileW(path->c_str(), access_of(flags), windows::kShareAll, nullptr,
                                       disposition_of(flags), attributes_of(flags), nullptr));
  if (!handle.valid()) return windows::fail();
  if (const int error_number = check_kind(handle.get(), flags); error_number != 0) {
    errno = error_number;
    return -1;
  }
  const int mode = _O_BINARY | _O_NOINHERIT | (has(flags, OpenFlags::write) ? 0 : _O_RDONLY);
  const int descriptor = ::_open_osfhandle(reinterpret_cast<std::intptr_t>(handle.get()), mode);
  if (descriptor >= 0)
    (void)handle.release();
  else if (has(flags, OpenFlags::only_new))
    (void)::DeleteFileW(path->c_str());  // too many descriptors
  return descriptor;
}

std::ptrdiff_t read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  constexpr std::size_t kMost = std::size_t{1} << 30;
  OVERLAPPED at{};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  DWORD count = 0;
  if (::ReadFile(handle, bytes, static_cast<DWORD>(size < kMost ? size : kMost), &count, &at))
    return static_cast<std::ptrdiff_t>(count);
  const DWORD error = ::GetLastError();
  return error == ERROR_HANDLE_EOF ? 0 : windows::fail(error);
}

Readable readable(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return Readable::unknown;
  if (::GetFileType(handle) != FILE_TYPE_DISK) return Readable::yes;  // the kind of the file decides
  const windows::Handle again(::ReOpenFile(handle, GENERIC_READ, windows::kShareAll, 0));
  if (again.valid()) return Readable::yes;
  // A read of nothing tells whether this handle may read.
  DWORD count = 0;
  OVERLAPPED at{};
  char nothing = 0;
  return ::ReadFile(handle, &nothing, 0, &count, &at) ? Readable::yes : Readable::no;
}

std::string absolute_path(const std::string& path) {
  const auto native = windows::native_path(kWorkingDirectory, path);
  return native ? windows::to_utf8(*native) : path;
}

}  // namespace safetensors::os
