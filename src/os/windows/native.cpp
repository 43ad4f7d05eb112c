// Translates errors of Windows to errno, and handles to descriptors of the C library.
#include "os/windows/native.h"

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "os/descriptor.h"
#include "os/system.h"
#include "os/system_error.h"

#if defined(_UCRT) && !defined(_MSC_VER)  // some headers of mingw-w64 do not declare it
extern "C" __declspec(dllimport) _invalid_parameter_handler
    __cdecl _set_thread_local_invalid_parameter_handler(_invalid_parameter_handler handler);
#endif

namespace safetensors::os {
namespace windows {
namespace {

constexpr struct {
  DWORD error;
  int number;
} kErrors[] = {
    {ERROR_FILE_NOT_FOUND, ENOENT},
    {ERROR_PATH_NOT_FOUND, ENOENT},
    {ERROR_INVALID_NAME, ENOENT},
    {ERROR_BAD_PATHNAME, ENOENT},
    {ERROR_BAD_NETPATH, ENOENT},
    {ERROR_BAD_NET_NAME, ENOENT},
    {ERROR_ACCESS_DENIED, EACCES},
    {ERROR_SHARING_VIOLATION, EBUSY},
    {ERROR_LOCK_VIOLATION, EWOULDBLOCK},
    {ERROR_USER_MAPPED_FILE, EBUSY},
    {ERROR_FILE_EXISTS, EEXIST},
    {ERROR_ALREADY_EXISTS, EEXIST},
    {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
    {ERROR_DIRECTORY, ENOTDIR},
    {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
    {ERROR_DISK_FULL, ENOSPC},
    {kQuotaExceeded, ENOSPC},
    {ERROR_HANDLE_DISK_FULL, ENOSPC},
    {ERROR_FILE_TOO_LARGE, EFBIG},
    {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
    {ERROR_OUTOFMEMORY, ENOMEM},
    {ERROR_COMMITMENT_LIMIT, ENOMEM},
    {ERROR_NO_SYSTEM_RESOURCES, ENOMEM},
    {ERROR_WRITE_PROTECT, EROFS},
    {ERROR_NOT_SAME_DEVICE, EXDEV},
    {ERROR_INVALID_HANDLE, EBADF},
    {ERROR_BROKEN_PIPE, EPIPE},
    {ERROR_NO_DATA, EPIPE},
    {ERROR_PIPE_NOT_CONNECTED, EPIPE},
    {ERROR_INVALID_PARAMETER, EINVAL},
    {ERROR_NEGATIVE_SEEK, EINVAL},
    {ERROR_NOT_SUPPORTED, EOPNOTSUPP},
    {ERROR_INVALID_FUNCTION, EOPNOTSUPP},
    {ERROR_CALL_NOT_IMPLEMENTED, ENOSYS},
    {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
    {ERROR_PRIVILEGE_NOT_HELD, EPERM},
    {ERROR_CANT_RESOLVE_FILENAME, ELOOP},
    {ERROR_WORKING_SET_QUOTA, ENOMEM},
    {ERROR_PAGEFILE_QUOTA, ENOMEM},
    {ERROR_BUSY, EBUSY},
    {ERROR_DELETE_PENDING, ENOENT},
    {ERROR_NOT_A_REPARSE_POINT, EINVAL},
    {ERROR_NOACCESS, EFAULT},
};

// The C library of Visual Studio ends the process if a program passes it a descriptor that is not open. While this
// object lives, calls of this thread fail with EBADF instead. The older C library always does that.
class QuietParameters {
#if defined(_MSC_VER) || defined(_UCRT)
 public:
  QuietParameters() noexcept : before_(::_set_thread_local_invalid_parameter_handler(ignore)) {}
  QuietParameters(const QuietParameters&) = delete;
  QuietParameters& operator=(const QuietParameters&) = delete;
  ~QuietParameters() {
    (void)::_set_thread_local_invalid_parameter_handler(before_);
  }

 private:
  static void ignore(const wchar_t*, const wchar_t*, const wchar_t*, unsigned, uintptr_t) {}

  const _invalid_parameter_handler before_;
#else
 public:
  QuietParameters() noexcept {}
#endif
};

}  // namespace

int fail(DWORD error) noexcept {
  const auto* const found =
      std::find_if(std::begin(kErrors), std::end(kErrors), [&](const auto& row) { return row.error == error; });
  return failed_with(found == std::end(kErrors) ? EIO : found->number);
}

int fail() noexcept {
  return fail(::GetLastError());
}

HANDLE handle_of(int descriptor) noexcept {
  constexpr std::intptr_t kNoFile = -2;  // a standard stream that leads nowhere
  std::intptr_t handle = -1;
  if (descriptor >= 0) {
    const QuietParameters quiet;
    handle = ::_get_osfhandle(descriptor);
  }
  if (handle != -1 && handle != kNoFile) return reinterpret_cast<HANDLE>(handle);
  errno = EBADF;
  return INVALID_HANDLE_VALUE;
}

HANDLE open_path(const std::wstring& path, DWORD access, DWORD flags) noexcept {
  return ::CreateFileW(path.c_str(), access, kShareAll, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | flags,
                       nullptr);
}

int descriptor_of(Handle& handle) noexcept {
  const int descriptor = ::_open_osfhandle(reinterpret_cast<std::intptr_t>(handle.get()), _O_BINARY | _O_NOINHERIT);
  if (descriptor >= 0) (void)handle.release();
  return descriptor;
}

bool is_directory(HANDLE handle) noexcept {
  BY_HANDLE_FILE_INFORMATION found;
  return ::GetFileInformationByHandle(handle, &found) && (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

bool is_directory(const std::wstring& path) noexcept {
  const DWORD attributes = ::GetFileAttributesW(path.c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

DWORD link_tag(HANDLE handle) noexcept {
  FILE_ATTRIBUTE_TAG_INFO found;
  const bool link = ::GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &found, sizeof found) &&
                    (found.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
                    (found.ReparseTag == IO_REPARSE_TAG_SYMLINK || found.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
  return link ? found.ReparseTag : 0;
}

}  // namespace windows

int close(int descriptor) noexcept {
  (void)windows::forget_lock(descriptor);
  const windows::QuietParameters quiet;
  return ::_close(descriptor);
}

int duplicate(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  const HANDLE process = ::GetCurrentProcess();
  HANDLE made = INVALID_HANDLE_VALUE;
  if (!::DuplicateHandle(process, handle, process, &made, 0, FALSE, DUPLICATE_SAME_ACCESS)) return windows::fail();
  windows::Handle copy(made);
  return windows::descriptor_of(copy);
}

}  // namespace safetensors::os
