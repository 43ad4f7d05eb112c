// What the sources of this folder share: handles of descriptors, paths in UTF-16, and errno for errors of Windows.
#pragma once

#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#include <optional>
#include <string>
#include <string_view>

namespace safetensors::os::windows {

// Other programs may read, write, rename and remove an open file, as on other systems.
inline constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

// Sets errno to the number that stands for an error of Windows, and returns -1.
int fail(DWORD error) noexcept;
// The same for the last error of this thread.
int fail() noexcept;

// Returns the handle of a descriptor, or INVALID_HANDLE_VALUE and sets errno.
[[nodiscard]] HANDLE handle_of(int descriptor) noexcept;

// Closes a handle in the destructor.
class Handle {
 public:
  explicit Handle(HANDLE handle) noexcept : handle_(handle) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (valid()) (void)::CloseHandle(handle_);
  }
  [[nodiscard]] HANDLE get() const noexcept { return handle_; }
  [[nodiscard]] bool valid() const noexcept { return handle_ != INVALID_HANDLE_VALUE && handle_ != nullptr; }
  [[nodiscard]] HANDLE release() noexcept {
    const HANDLE handle = handle_;
    handle_ = INVALID_HANDLE_VALUE;
    return handle;
  }

 private:
  HANDLE handle_;
};

// Returns a path for the functions of Windows: UTF-16, absolute, with the prefix that allows long paths. directory:
// the descriptor that a relative path starts from, or kWorkingDirectory. Returns nothing and sets errno: EILSEQ if the
// path is not UTF-8, EINVAL for a name that Windows reserves (such as NUL or COM1), ENOENT for an empty path.
[[nodiscard]] std::optional<std::wstring> native_path(int directory, std::string_view path) noexcept;

// Returns UTF-8, with `/` between names and without the prefix for long paths. A lone surrogate becomes U+FFFD.
[[nodiscard]] std::string to_utf8(std::wstring_view text);

// Returns UTF-8 without any other change.
[[nodiscard]] std::string plain_utf8(std::wstring_view text);

// Returns the path of an open file or directory, in UTF-16. Empty, with errno: the system does not tell.
[[nodiscard]] std::wstring path_of(HANDLE handle) noexcept;

}  // namespace safetensors::os::windows
