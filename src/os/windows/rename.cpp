// Renames and removes files.
//
// The new semantics of POSIX come first: open files can be replaced, and read-only ones. Windows 10 has them since
// 2018 (version 1809), and some file systems (FAT) and Wine lack them. The older calls, which come second, refuse to
// replace an open file.
//
// Windows also refuses to replace or remove a file that a program has open without sharing, as scanners for viruses do
// for moments. Windows says "access denied" of a file that is in use, and also if the rights are not enough. So these
// calls are tried again for up to half a second in both cases, but a removal that is denied only for some milliseconds:
// a folder may hold many files of other users. Nothing here ever removes the old file before the new one has its name.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include "os/file_status.h"
#include "os/system.h"
#include "os/system_error.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace {

// Classes and flags that older headers lack.
constexpr auto kRenameInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);       // FileRenameInfoEx
constexpr auto kDispositionInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(21);  // FileDispositionInfoEx
constexpr DWORD kReplaceIfExists = 1, kRenamePosix = 2, kReplaceReadOnly = 0x40;
constexpr DWORD kDelete = 1, kDeletePosix = 2, kDeleteReadOnly = 16;
// The last of the pauses between attempts, in milliseconds. Each is twice as long as the one before it.
constexpr DWORD kShortPause = 8, kLongPause = 256;

bool lacks_posix_semantics(DWORD error) noexcept {
  return error == ERROR_INVALID_PARAMETER || error == ERROR_NOT_SUPPORTED || error == ERROR_INVALID_FUNCTION ||
         error == ERROR_CALL_NOT_IMPLEMENTED || error == ERROR_INVALID_LEVEL;
}

// Makes a call, which returns an error of Windows, again while it fails for a reason that may pass. denied: the last
// pause if the access is denied.
template <class Call>
DWORD try_for_a_while(const Call& call, DWORD denied = kLongPause) {
  DWORD error = call();
  for (DWORD pause = 1; error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION; pause *= 2) {
    if (pause > (error == ERROR_SHARING_VIOLATION ? kLongPause : denied)) break;
    ::Sleep(pause);
    error = call();
  }
  return error;
}

HANDLE open_to_rename(const std::wstring& path) noexcept {
  return windows::open_path(path, DELETE | SYNCHRONIZE | FILE_READ_ATTRIBUTES,
                            FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_WRITE_THROUGH);
}

// Returns whether a rename that was denied found the old file in use. If this process may remove the old file, or
// another one does not share it, the rights were not the reason.
bool in_use(const std::wstring& path) noexcept {
  const windows::Handle file(open_to_rename(path));
  return file.valid() || ::GetLastError() == ERROR_SHARING_VIOLATION;
}

// Makes a call for a file with the attribute "read-only" again without it. If that fails, the file gets it back.
template <class Call>
DWORD despite_read_only(const std::wstring& path, const Call& call) {
  if (call()) return NO_ERROR;
  const DWORD error = ::GetLastError();
  const DWORD attributes = ::GetFileAttributesW(path.c_str());
  constexpr DWORD kIrrelevant = FILE_ATTRIBUTE_READONLY | FILE_ATTRIBUTE_DIRECTORY;
  if (error != ERROR_ACCESS_DENIED || attributes == INVALID_FILE_ATTRIBUTES ||
      (attributes & kIrrelevant) != FILE_ATTRIBUTE_READONLY ||
      !::SetFileAttributesW(path.c_str(), attributes & ~DWORD{FILE_ATTRIBUTE_READONLY}))
    return error;
  if (call()) return NO_ERROR;
  const DWORD again = ::GetLastError();
  (void)::SetFileAttributesW(path.c_str(), attributes);
  return again;
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

// Makes a change with the new semantics, or else with the older call, which returns a BOOL. The older call must be able
// to change `found`.
template <class Call>
DWORD change_once(const std::wstring& path, FILE_INFO_BY_HANDLE_CLASS kind, void* info, DWORD size,
                  const std::wstring& found, const Call& older) {
  windows::Handle file(open_to_rename(path));
  if (!file.valid()) return ::GetLastError();
  if (::SetFileInformationByHandle(file.get(), kind, info, size)) return NO_ERROR;
  if (const DWORD error = ::GetLastError(); !lacks_posix_semantics(error)) return error;
  file.reset();
  return despite_read_only(found, older);
}

DWORD rename_once(const std::wstring& from, const std::wstring& to) {
  const Rename posix(to, kReplaceIfExists | kRenamePosix | kReplaceReadOnly);
  return change_once(from, kRenameInfoEx, posix.bytes.get(), posix.size, to, [&] {
    return ::MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
  });
}

DWORD remove_once(const std::wstring& path) noexcept {
  DWORD flags = kDelete | kDeletePosix | kDeleteReadOnly;
  return change_once(path, kDispositionInfoEx, &flags, sizeof flags, path, [&] {
    // Also a symlink that was made for a directory is a directory.
    return windows::is_directory(path) ? ::RemoveDirectoryW(path.c_str()) : ::DeleteFileW(path.c_str());
  });
}

int remove(int directory, const char* name, bool wants_directory) noexcept {
  FileStatus status;
  if (status_at(directory, name, Symlinks::keep, status) != 0) return -1;
  if (status.is_directory() != wants_directory) return failed_with(wants_directory ? ENOTDIR : EISDIR);
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  const DWORD error = try_for_a_while([&] { return remove_once(*path); }, kShortPause);
  return error == NO_ERROR ? 0 : windows::fail(error);
}

}  // namespace

int rename_at(int directory, const char* from, const char* to) noexcept {
  const auto old_path = windows::native_path(directory, from);
  const auto new_path = windows::native_path(directory, to);
  if (!old_path || !new_path) return -1;
  if (windows::is_directory(*new_path)) return failed_with(EISDIR);
  try {
    const DWORD error = try_for_a_while([&] { return rename_once(*old_path, *new_path); });
    if (error == NO_ERROR) return 0;
    windows::fail(error);
    if (error == ERROR_ACCESS_DENIED && in_use(*new_path)) errno = EBUSY;
    return -1;
  } catch (const std::bad_alloc&) {
    return failed_with(ENOMEM);
  }
}

int rename_new(int directory, const char* from, const char* to) noexcept {
  const auto old_path = windows::native_path(directory, from);
  const auto new_path = windows::native_path(directory, to);
  if (!old_path || !new_path) return -1;
  const auto rename = [&]() -> DWORD {
    return ::MoveFileExW(old_path->c_str(), new_path->c_str(), MOVEFILE_WRITE_THROUGH) ? NO_ERROR : ::GetLastError();
  };
  const DWORD error = try_for_a_while(rename);  // a scanner may have a file in a folder open
  return error == NO_ERROR ? 0 : windows::fail(error);
}

int unlink_at(int directory, const char* name) noexcept {
  return remove(directory, name, false);
}

int remove_directory(int directory, const char* name) noexcept {
  return remove(directory, name, true);
}

}  // namespace safetensors::os
