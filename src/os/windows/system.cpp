// The calls of System that change files.
//
// Windows refuses to replace or remove a file that a program has open without sharing, as scanners for viruses do for
// moments. So these calls are tried again for up to half a second. The new semantics of POSIX, where open files can be
// replaced, come first. Windows 10 has them since 2018, and some file systems still lack them.
#include "os/system.h"

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "os/file_status.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace {

// Classes and flags that older headers lack.
constexpr auto kRenameInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);       // FileRenameInfoEx
constexpr auto kDispositionInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(21);  // FileDispositionInfoEx
constexpr DWORD kReplaceIfExists = 1, kRenamePosix = 2, kReplaceReadOnly = 0x40;
constexpr DWORD kDelete = 1, kDeletePosix = 2, kDeleteReadOnly = 16;

bool lacks_posix_semantics(DWORD error) noexcept {
  return error == ERROR_INVALID_PARAMETER || error == ERROR_NOT_SUPPORTED || error == ERROR_INVALID_FUNCTION ||
         error == ERROR_CALL_NOT_IMPLEMENTED || error == ERROR_INVALID_LEVEL;
}

// call: returns an error of Windows, or NO_ERROR. Returns 0, or -1 and sets errno.
template <class Call>
int try_for_a_while(const Call& call) {
  DWORD error = call();
  for (DWORD pause = 1; pause <= 256 && (error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION);
       pause *= 2) {
    ::Sleep(pause);
    error = call();
  }
  return error == NO_ERROR ? 0 : windows::fail(error);
}

// The argument of a rename, with the new path behind it.
struct Rename {
  std::unique_ptr<std::byte[]> bytes;
  DWORD size = 0;

  Rename(const std::wstring& to, DWORD flags) {
    const std::size_t text = to.size() * sizeof(wchar_t);
    size = static_cast<DWORD>(offsetof(FILE_RENAME_INFO, FileName) + text + sizeof(wchar_t));
    bytes.reset(new std::byte[size]());
    auto* const info = reinterpret_cast<FILE_RENAME_INFO*>(bytes.get());
    std::memcpy(info, &flags, sizeof flags);  // the first member: flags, or a BOOLEAN before they existed
    info->FileNameLength = static_cast<DWORD>(text);
    std::memcpy(info->FileName, to.data(), text);
  }
};

DWORD rename_once(const std::wstring& from, const std::wstring& to) {
  const windows::Handle file(
      ::CreateFileW(from.c_str(), DELETE | SYNCHRONIZE, windows::kShareAll, nullptr, OPEN_EXISTING,
                    FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_WRITE_THROUGH, nullptr));
  if (!file.valid()) return ::GetLastError();
  const Rename posix(to, kReplaceIfExists | kRenamePosix | kReplaceReadOnly);
  if (::SetFileInformationByHandle(file.get(), kRenameInfoEx, posix.bytes.get(), posix.size)) return NO_ERROR;
  if (const DWORD error = ::GetLastError(); !lacks_posix_semantics(error)) return error;
  return ::MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? DWORD{NO_ERROR}
                                                                                                     : ::GetLastError();
}

DWORD remove_once(const std::wstring& path, bool directory) noexcept {
  const windows::Handle file(::CreateFileW(path.c_str(), DELETE | SYNCHRONIZE, windows::kShareAll, nullptr,
                                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT,
                                           nullptr));
  if (!file.valid()) return ::GetLastError();
  DWORD flags = kDelete | kDeletePosix | kDeleteReadOnly;
  if (::SetFileInformationByHandle(file.get(), kDispositionInfoEx, &flags, sizeof flags)) return NO_ERROR;
  if (const DWORD error = ::GetLastError(); !lacks_posix_semantics(error)) return error;
  const BOOL removed = directory ? ::RemoveDirectoryW(path.c_str()) : ::DeleteFileW(path.c_str());
  return removed ? DWORD{NO_ERROR} : ::GetLastError();
}

int remove(int directory, const char* name, bool is_directory) noexcept {
  FileStatus status;
  if (status_at(directory, name, Symlinks::keep, status) != 0) return -1;
  if (status.is_directory() != is_directory && !status.is_symlink()) {
    errno = is_directory ? ENOTDIR : EISDIR;
    return -1;
  }
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  return try_for_a_while([&] { return remove_once(*path, is_directory); });
}

// A lock of Windows keeps other programs from reading the range. So it covers a byte that no file has.
OVERLAPPED lock_range() noexcept {
  OVERLAPPED range{};
  range.Offset = 0xFFFF'FFFE;
  range.OffsetHigh = 0x7FFF'FFFF;
  return range;
}

bool is_directory(HANDLE handle) noexcept {
  BY_HANDLE_FILE_INFORMATION found;
  return ::GetFileInformationByHandle(handle, &found) && (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

int unsupported() noexcept {
  errno = EOPNOTSUPP;
  return -1;
}

}  // namespace

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
  return ::_close(descriptor);
}

std::ptrdiff_t System::write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  constexpr std::size_t kMost = std::size_t{1} << 30;
  OVERLAPPED at{};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  DWORD count = 0;
  if (!::WriteFile(handle, bytes, static_cast<DWORD>(std::min(size, kMost)), &count, &at)) return windows::fail();
  return static_cast<std::ptrdiff_t>(count);
}

std::ptrdiff_t System::read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  return os::read_at(descriptor, bytes, size, offset);
}

std::ptrdiff_t System::copy_range(int, std::uint64_t, int, std::uint64_t, std::size_t) noexcept {
  return unsupported();
}

int System::direct_alignment(int, DirectAlignment& alignment) noexcept {
  alignment = {.known = true, .memory = 4096, .offset = 4096};
  return 0;
}

int System::preallocate(int descriptor, std::uint64_t size) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  FILE_ALLOCATION_INFO space;
  space.AllocationSize.QuadPart = static_cast<LONGLONG>(size);
  if (!::SetFileInformationByHandle(handle, FileAllocationInfo, &space, sizeof space) &&
      ::GetLastError() == ERROR_DISK_FULL)
    return windows::fail(ERROR_DISK_FULL);
  FILE_END_OF_FILE_INFO end;
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(size);
  return ::SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end) ? 0 : windows::fail();
}

int System::start_writeback(int) noexcept {
  return unsupported();
}

// NTFS keeps the entries of folders in a journal, so a folder needs no flush, and Windows refuses it.
int System::sync(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  if (::FlushFileBuffers(handle)) return 0;
  const DWORD error = ::GetLastError();
  return is_directory(handle) ? 0 : windows::fail(error);
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

int System::rename_at(int directory, const char* from, const char* to) noexcept {
  const auto old_path = windows::native_path(directory, from);
  const auto new_path = windows::native_path(directory, to);
  if (!old_path || !new_path) return -1;
  try {
    return try_for_a_while([&] { return rename_once(*old_path, *new_path); });
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return -1;
  }
}

int System::unlink_at(int directory, const char* name) noexcept {
  return remove(directory, name, false);
}

int System::make_directory(int directory, const char* name, std::uint32_t) noexcept {
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  return ::CreateDirectoryW(path->c_str(), nullptr) ? 0 : windows::fail();
}

int System::remove_directory(int directory, const char* name) noexcept {
  return remove(directory, name, true);
}

int System::rename_new(int directory, const char* from, const char* to) noexcept {
  const auto old_path = windows::native_path(directory, from);
  const auto new_path = windows::native_path(directory, to);
  if (!old_path || !new_path) return -1;
  return try_for_a_while([&]() -> DWORD {
    return ::MoveFileExW(old_path->c_str(), new_path->c_str(), MOVEFILE_WRITE_THROUGH) ? NO_ERROR : ::GetLastError();
  });
}

int System::link_at(int, int, const char*) noexcept {
  return unsupported();
}

bool System::linkable(int) noexcept {
  return false;
}

int System::duplicate(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  HANDLE copy = INVALID_HANDLE_VALUE;
  const HANDLE process = ::GetCurrentProcess();
  if (!::DuplicateHandle(process, handle, process, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS)) return windows::fail();
  const int made = ::_open_osfhandle(reinterpret_cast<std::intptr_t>(copy), _O_BINARY | _O_NOINHERIT);
  if (made < 0) (void)::CloseHandle(copy);
  return made;
}

int System::lock(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  OVERLAPPED range = lock_range();
  if (::LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &range)) return 0;
  const DWORD error = ::GetLastError();
  return windows::fail(error == ERROR_IO_PENDING ? DWORD{ERROR_LOCK_VIOLATION} : error);
}

int System::unlock(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  OVERLAPPED range = lock_range();
  return ::UnlockFileEx(handle, 0, 1, 0, &range) ? 0 : windows::fail();
}

}  // namespace safetensors::os
