// Opens files with CreateFile(), and wraps their handles in descriptors of the C library.
//
// Every file is open for all kinds of sharing, so that another program may rename or remove it, as on other systems.
// Handles have FILE_FLAG_OVERLAPPED: without it, Windows lets only one thread at a time use an open file. Such a handle
// has no position. Functions of the C library that read or write need one, so they fail with these descriptors.
#include "os/open.h"

#include <algorithm>
#include <cerrno>

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
  DWORD attributes = FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OVERLAPPED;
  if (!has(flags, OpenFlags::write)) attributes |= FILE_FLAG_BACKUP_SEMANTICS;  // else no directory can be opened
  if (has(flags, OpenFlags::no_follow)) attributes |= FILE_FLAG_OPEN_REPARSE_POINT;
  if (has(flags, OpenFlags::direct)) attributes |= FILE_FLAG_NO_BUFFERING;
  return attributes;
}

// A file that OneDrive or deduplication manages is a reparse point, too, though not a link. With the flag for links,
// Windows would not show its bytes. So such a file is opened again without it, and must be the same file.
HANDLE open_handle(const std::wstring& path, OpenFlags flags) noexcept {
  const auto open = [&](DWORD disposition, DWORD attributes) {
    return ::CreateFileW(path.c_str(), access_of(flags), windows::kShareAll, nullptr, disposition, attributes, nullptr);
  };
  windows::Handle handle(open(disposition_of(flags), attributes_of(flags)));
  BY_HANDLE_FILE_INFORMATION first, second;
  if (!has(flags, OpenFlags::no_follow) || !handle.valid() || windows::link_tag(handle.get()) != 0 ||
      !::GetFileInformationByHandle(handle.get(), &first) ||
      (first.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) == 0)
    return handle.release();
  windows::Handle behind(open(OPEN_EXISTING, attributes_of(without(flags, OpenFlags::no_follow))));
  if (!behind.valid() || !::GetFileInformationByHandle(behind.get(), &second)) return INVALID_HANDLE_VALUE;
  if (first.dwVolumeSerialNumber == second.dwVolumeSerialNumber && first.nFileIndexHigh == second.nFileIndexHigh &&
      first.nFileIndexLow == second.nFileIndexLow)
    return behind.release();
  ::SetLastError(ERROR_CANT_RESOLVE_FILENAME);  // a link has replaced it
  return INVALID_HANDLE_VALUE;
}

// Checks that the open file is of the kind that the flags demand. Truncates the file if the flags demand it. Returns 0,
// or an error number.
int check_kind(HANDLE handle, OpenFlags flags) noexcept {
  if (has(flags, OpenFlags::directory) && !windows::is_directory(handle)) return ENOTDIR;
  if (has(flags, OpenFlags::no_follow) && windows::link_tag(handle) != 0) return ELOOP;
  FILE_END_OF_FILE_INFO empty{};
  if (has(flags, OpenFlags::truncate) &&
      !::SetFileInformationByHandle(handle, FileEndOfFileInfo, &empty, sizeof empty)) {
    windows::fail();
    return errno;
  }
  return 0;
}

// Windows calls a directory that a program wants to write, or to make as a file, an access that is denied.
int fail_to_open(DWORD error, const std::wstring& path, OpenFlags flags) noexcept {
  windows::fail(error);
  if (error != ERROR_ACCESS_DENIED || !has(flags, OpenFlags::write)) return -1;
  const DWORD attributes = ::GetFileAttributesW(path.c_str());
  if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0)
    errno = has(flags, OpenFlags::only_new) ? EEXIST : EISDIR;
  return -1;
}

}  // namespace

const int kWorkingDirectory = -100;

int open_at(int directory, const char* name, OpenFlags flags, std::uint32_t) noexcept {
  if (has(flags, OpenFlags::unnamed)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  const bool makes = has(flags, OpenFlags::create);
  if (windows::wants_directory(name) && makes) {
    errno = EISDIR;
    return -1;
  }
  if (windows::wants_directory(name)) flags = flags | OpenFlags::directory;
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  windows::Handle handle(open_handle(*path, flags));
  if (!handle.valid()) return fail_to_open(::GetLastError(), *path, flags);
  if (const int error_number = check_kind(handle.get(), flags); error_number != 0) {
    errno = error_number;
    return -1;
  }
  const int descriptor = windows::descriptor_of(handle);
  if (descriptor < 0 && has(flags, OpenFlags::only_new)) (void)::DeleteFileW(path->c_str());  // too many descriptors
  return descriptor;
}

std::ptrdiff_t read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  DWORD count = 0;
  const DWORD error = windows::call_at(handle, offset, count, [&](OVERLAPPED* at) {
    return ::ReadFile(handle, bytes, static_cast<DWORD>(std::min(size, windows::kMaxTransfer)), &count, at);
  });
  if (error == ERROR_HANDLE_EOF) return 0;
  return error == NO_ERROR ? static_cast<std::ptrdiff_t>(count) : windows::fail(error);
}

// A read of nothing, without an offset, moves no position. Windows asks for the right to read before it looks at the
// other arguments.
Readable readable(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return Readable::unknown;
  if (::GetFileType(handle) != FILE_TYPE_DISK) return Readable::yes;  // the kind of the file decides
  DWORD count = 0;
  char nothing = 0;
  const bool denied = !::ReadFile(handle, &nothing, 0, &count, nullptr) && ::GetLastError() == ERROR_ACCESS_DENIED;
  return denied ? Readable::no : Readable::yes;
}

int duplicate_for_reading(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  constexpr DWORD kFlags = FILE_FLAG_OVERLAPPED | FILE_FLAG_BACKUP_SEMANTICS;
  windows::Handle own(::ReOpenFile(handle, GENERIC_READ, windows::kShareAll, kFlags));
  return own.valid() ? windows::descriptor_of(own) : windows::duplicate(descriptor);
}

}  // namespace safetensors::os
