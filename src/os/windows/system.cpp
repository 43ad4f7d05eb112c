// Opens, examines and reads files. Handles of CreateFile() are wrapped in descriptors of the C
// library.
//
// Every file is open for all kinds of sharing, so that another program may rename or remove it, as on other systems.
// Handles have FILE_FLAG_OVERLAPPED: without it, Windows lets only one thread at a time use an open file. Such a handle
// has no position. Functions of the C library that read or write need one, so they fail with these descriptors.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/process.h"
#include "os/system.h"
#include "os/system_error.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace {

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
  DWORD access = FILE_READ_ATTRIBUTES | SYNCHRONIZE;
  if (has(flags, OpenFlags::read)) access |= has(flags, OpenFlags::directory) ? FILE_LIST_DIRECTORY : GENERIC_READ;
  if (has(flags, OpenFlags::write)) access |= GENERIC_WRITE;
  const auto open = [&](DWORD disposition, DWORD attributes) {
    return ::CreateFileW(path.c_str(), access, windows::kShareAll, nullptr, disposition, attributes, nullptr);
  };
  const DWORD disposition = !has(flags, OpenFlags::create)    ? OPEN_EXISTING
                            : has(flags, OpenFlags::only_new) ? CREATE_NEW
                                                              : OPEN_ALWAYS;
  windows::Handle handle(open(disposition, attributes_of(flags)));
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
// or -1 and sets errno.
int check_kind(HANDLE handle, OpenFlags flags) noexcept {
  if (has(flags, OpenFlags::directory) && !windows::is_directory(handle)) return failed_with(ENOTDIR);
  if (has(flags, OpenFlags::no_follow) && windows::link_tag(handle) != 0) return failed_with(ELOOP);
  FILE_END_OF_FILE_INFO empty{};
  if (has(flags, OpenFlags::truncate) && !::SetFileInformationByHandle(handle, FileEndOfFileInfo, &empty, sizeof empty))
    return windows::fail();
  return 0;
}

// Windows calls a directory that a program wants to write, or to make as a file, an access that is denied.
int fail_to_open(DWORD error, const std::wstring& path, OpenFlags flags) noexcept {
  if (error != ERROR_ACCESS_DENIED || !has(flags, OpenFlags::write) || !windows::is_directory(path))
    return windows::fail(error);
  return failed_with(has(flags, OpenFlags::only_new) ? EEXIST : EISDIR);
}

}  // namespace

const int kWorkingDirectory = -100;

int open_at(int directory, const char* name, OpenFlags flags, std::uint32_t) noexcept {
  if (has(flags, OpenFlags::unnamed)) return failed_with(EOPNOTSUPP);
  if (windows::wants_directory(name)) {
    if (has(flags, OpenFlags::create)) return failed_with(EISDIR);
    flags = flags | OpenFlags::directory;
  }
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  windows::Handle handle(open_handle(*path, flags));
  if (!handle.valid()) return fail_to_open(::GetLastError(), *path, flags);
  if (check_kind(handle.get(), flags) != 0) return -1;
  const int descriptor = windows::descriptor_of(handle);
  if (descriptor < 0 && has(flags, OpenFlags::only_new)) (void)::DeleteFileW(path->c_str());  // too many descriptors
  return descriptor;
}

std::ptrdiff_t read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  DWORD count = 0;
  const DWORD error = windows::call_at(handle, offset, count, [&](OVERLAPPED* at) {
    return ::ReadFile(handle, bytes, static_cast<DWORD>(std::min(size, kMaxTransfer)), &count, at);
  });
  if (error == ERROR_HANDLE_EOF) return 0;
  return error == NO_ERROR ? static_cast<std::ptrdiff_t>(count) : windows::fail(error);
}

// A read of nothing, without an offset, moves no position. Windows asks for the right to read before it looks at the
// other arguments. Other kinds of files are refused later.
int duplicate_for_reading(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  DWORD count = 0;
  char nothing = 0;
  if (::GetFileType(handle) == FILE_TYPE_DISK && !::ReadFile(handle, &nothing, 0, &count, nullptr) &&
      ::GetLastError() == ERROR_ACCESS_DENIED)
    return failed_with(EACCES);
  constexpr DWORD kFlags = FILE_FLAG_OVERLAPPED | FILE_FLAG_BACKUP_SEMANTICS;
  windows::Handle own(::ReOpenFile(handle, GENERIC_READ, windows::kShareAll, kFlags));
  return own.valid() ? windows::descriptor_of(own) : duplicate(descriptor);
}

namespace {

constexpr std::int64_t kTicksPerSecond = 10'000'000;  // a tick has 100 ns
constexpr std::int64_t kSecondsFrom1601To1970 = 11'644'473'600;

std::int64_t ticks_of(const LARGE_INTEGER& time) noexcept {
  return time.QuadPart - kSecondsFrom1601To1970 * kTicksPerSecond;
}

FileKind kind_of_disk_file(HANDLE handle, DWORD attributes) noexcept {
  if ((attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 && windows::link_tag(handle) != 0) return FileKind::symlink;
  return (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? FileKind::directory : FileKind::regular;
}

int status_of_handle(HANDLE handle, FileStatus& status) noexcept {
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
  FILE_BASIC_INFO times;
  if (!::GetFileInformationByHandle(handle, &found) ||
      !::GetFileInformationByHandleEx(handle, FileBasicInfo, &times, sizeof times))
    return windows::fail();
  const std::int64_t modified = ticks_of(times.LastWriteTime);
  // Some file systems have no change time.
  const std::int64_t change = times.ChangeTime.QuadPart != 0 ? ticks_of(times.ChangeTime) : modified;
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
  const DWORD flags = symlinks == Symlinks::keep ? FILE_FLAG_OPEN_REPARSE_POINT : 0;
  const windows::Handle handle(windows::open_path(*path, FILE_READ_ATTRIBUTES, flags));
  if (!handle.valid()) return windows::fail();
  FileStatus found;
  if (status_of_handle(handle.get(), found) != 0) return -1;
  if (windows::wants_directory(name) && !found.is_directory()) return failed_with(ENOTDIR);
  status = found;
  return 0;
}

FileSystem file_system_of(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  FILE_REMOTE_PROTOCOL_INFO remote;
  // The call fails for a file of this machine, and for a driver that does not know it. Then the path decides.
  if (::GetFileInformationByHandleEx(handle, FileRemoteProtocolInfo, &remote, sizeof remote)) return FileSystem::remote;
  return windows::path_of(handle).starts_with(L"\\\\?\\UNC\\") ? FileSystem::remote : FileSystem::local;
}

DescriptorPath::DescriptorPath(int descriptor) noexcept {
  std::memcpy(text, "<", 2);  // after a failure: no file has this name
  try {
    const std::string path = windows::to_utf8(windows::path_of(windows::handle_of(descriptor)));
    if (path.size() < sizeof text) std::memcpy(text, path.c_str(), path.size() + 1);
  } catch (const std::bad_alloc&) {
  }
}

// Offsets and buffers must be multiples of a sector.
int direct_alignment(int descriptor, DirectAlignment& alignment) noexcept {
  alignment = {};
  const HANDLE handle = windows::handle_of(descriptor);
  FILE_STORAGE_INFO storage;
  if (!::GetFileInformationByHandleEx(handle, FileStorageInfo, &storage, sizeof storage)) return 0;
  const auto sector = static_cast<std::uint32_t>(storage.LogicalBytesPerSector);
  if (sector != 0) alignment = {.known = true, .memory = sector, .offset = sector};
  return 0;
}

// The mask is 0 if the process uses several groups of processors: then it has no limit.
unsigned allowed_processors() noexcept {
  DWORD_PTR allowed = 0, all = 0;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &allowed, &all) && allowed != 0)
    return static_cast<unsigned>(std::popcount(allowed));
  return std::max(1U, static_cast<unsigned>(::GetActiveProcessorCount(ALL_PROCESSOR_GROUPS)));
}

// The C library allows 2,048 descriptors (msvcrt) or 8,192 (the universal one).
std::size_t descriptor_limit() noexcept {
  return 1024;
}

}  // namespace safetensors::os
