// What the sources of this folder share: handles of descriptors, paths in UTF-16, and errno for errors of Windows.
#pragma once

#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace safetensors::os::windows {

// Other programs may read, write, rename and remove an open file, as on other systems.
inline constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

inline constexpr int kMaxDescriptors = 8192;   // of the universal C library
inline constexpr DWORD kQuotaExceeded = 1295;  // ERROR_DISK_QUOTA_EXCEEDED, which older headers lack

// Sets errno to the number that stands for an error of Windows, and returns -1.
int fail(DWORD error) noexcept;
// The same for the last error of this thread.
int fail() noexcept;

// Closes a handle in the destructor.
class Handle {
 public:
  explicit Handle(HANDLE handle) noexcept : handle_(handle) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }
  [[nodiscard]] HANDLE get() const noexcept { return handle_; }
  [[nodiscard]] bool valid() const noexcept { return handle_ != INVALID_HANDLE_VALUE && handle_ != nullptr; }
  [[nodiscard]] HANDLE release() noexcept { return std::exchange(handle_, INVALID_HANDLE_VALUE); }
  void reset() noexcept {
    if (valid()) (void)::CloseHandle(release());
  }

 private:
  HANDLE handle_;
};

// Returns the handle of a descriptor, or INVALID_HANDLE_VALUE and sets errno to EBADF. Calls for open files refuse this
// value with an error, which fail() translates to EBADF. file_system_of() and direct_alignment() ignore that error, and
// answer as for a file of which nothing is known. A call that takes a process takes this value for the calling process.
// A call that takes a file or none takes it for none.
[[nodiscard]] HANDLE handle_of(int descriptor) noexcept;
// Returns a new descriptor, which owns the handle. Returns -1 and sets errno if there are too many descriptors: then
// the caller still owns the handle.
[[nodiscard]] int descriptor_of(Handle& handle) noexcept;
// Releases the lock that a descriptor of a folder has. Returns false if it has none.
bool forget_lock(int descriptor) noexcept;

// Opens a file or a directory that exists. Returns INVALID_HANDLE_VALUE and sets the error of Windows.
[[nodiscard]] HANDLE open_path(const std::wstring& path, DWORD access, DWORD flags) noexcept;

// Makes a call of Windows at an offset of a file, and waits until it is done. call: takes the address of an OVERLAPPED,
// and returns a BOOL. Returns an error of Windows, or NO_ERROR. count: receives the number of bytes.
//
// A handle with FILE_FLAG_OVERLAPPED may say that the work goes on. So every call has an event of its own: the file
// itself does not tell which of several calls is done.
template <class Call>
DWORD call_at(HANDLE handle, std::uint64_t offset, DWORD& count, const Call& call) noexcept {
  const Handle event(::CreateEventW(nullptr, TRUE, FALSE, nullptr));
  if (!event.valid()) return ::GetLastError();
  OVERLAPPED at{};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  at.hEvent = event.get();
  if (call(&at)) return NO_ERROR;
  const DWORD error = ::GetLastError();
  if (error != ERROR_IO_PENDING) return error;
  return ::GetOverlappedResult(handle, &at, &count, TRUE) ? DWORD{NO_ERROR} : ::GetLastError();
}

// Returns whether a handle is that of a directory, or of a symlink that was made for a directory.
[[nodiscard]] bool is_directory(HANDLE handle) noexcept;
[[nodiscard]] bool is_directory(const std::wstring& path) noexcept;
// Returns the tag of a symlink or a mount point, or 0 for any other file.
[[nodiscard]] DWORD link_tag(HANDLE handle) noexcept;

// Returns a path for the functions of Windows: UTF-16, absolute, with the prefix that allows long paths. directory:
// the descriptor that a relative path starts from, or kWorkingDirectory. Returns nothing and sets errno: EILSEQ if the
// path is not UTF-8, EINVAL for a name that Windows reserves (such as NUL or COM1) or that holds a colon, ENOENT for an
// empty path, ENAMETOOLONG for a name of more than 255 units of UTF-16.
[[nodiscard]] std::optional<std::wstring> native_path(int directory, std::string_view path) noexcept;
// Returns whether a path ends with a separator, so that it must lead to a directory.
[[nodiscard]] bool wants_directory(std::string_view path) noexcept;

// Returns UTF-8, with `/` between names and without the prefix for long paths. Paths that exist only with the prefix,
// as those on a volume without a letter, keep it. A lone surrogate becomes U+FFFD.
[[nodiscard]] std::string to_utf8(std::wstring_view text);

// Returns UTF-8 without any other change.
[[nodiscard]] std::string plain_utf8(std::wstring_view text);

// Returns the path of an open file or directory, in UTF-16. Empty, with errno: the system does not tell.
[[nodiscard]] std::wstring path_of(HANDLE handle) noexcept;

}  // namespace safetensors::os::windows
