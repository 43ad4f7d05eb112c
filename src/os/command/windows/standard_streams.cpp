// Reads and writes the handles behind the descriptors, so that bytes stay as they are: the C library would change the
// ends of lines.
#include "os/command/standard_streams.h"

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <cerrno>

#include "os/windows/native.h"

namespace safetensors::os {
namespace {

constexpr std::size_t kMost = std::size_t{1} << 30;  // bytes of one call
constexpr DWORD kPause = 10;                         // milliseconds

bool is_console(HANDLE handle) noexcept {
  DWORD mode = 0;
  return ::GetConsoleMode(handle, &mode) != 0;
}

// A pipe has no event for "has bytes", so it is asked again and again.
int wait_for_pipe(HANDLE handle, int milliseconds) noexcept {
  for (ULONGLONG begin = ::GetTickCount64();;) {
    DWORD available = 0;
    if (!::PeekNamedPipe(handle, nullptr, 0, nullptr, &available, nullptr)) return 1;  // the read tells why
    if (available > 0) return 1;
    if (milliseconds >= 0 && ::GetTickCount64() - begin >= static_cast<ULONGLONG>(milliseconds)) return 0;
    ::Sleep(kPause);
  }
}

std::int64_t move(int descriptor, DWORD origin) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  if (::GetFileType(handle) != FILE_TYPE_DISK) {
    errno = ESPIPE;
    return -1;
  }
  LARGE_INTEGER zero{}, position{};
  if (!::SetFilePointerEx(handle, zero, &position, origin)) return windows::fail();
  return position.QuadPart;
}

}  // namespace

bool is_terminal(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  return handle != INVALID_HANDLE_VALUE && is_console(handle);
}

std::size_t terminal_columns(int descriptor) noexcept {
  CONSOLE_SCREEN_BUFFER_INFO info;
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE || !::GetConsoleScreenBufferInfo(handle, &info)) return 0;
  return static_cast<std::size_t>(std::max(0, info.srWindow.Right - info.srWindow.Left + 1));
}

// The text of the command is UTF-8. Escape sequences, such as colours, must be asked for on a console of Windows.
void fill_standard_descriptors() noexcept {
  for (int descriptor = kStandardInput; descriptor <= kStandardError; ++descriptor) {
    const HANDLE handle = windows::handle_of(descriptor);
    if (handle == INVALID_HANDLE_VALUE) {
      const int made = ::_open("NUL", (descriptor == kStandardInput ? _O_WRONLY : _O_RDONLY) | _O_BINARY);
      if (made >= 0 && made != descriptor) (void)::_dup2(made, descriptor), (void)::_close(made);
    } else if (descriptor != kStandardInput && is_console(handle)) {
      DWORD mode = 0;
      (void)::GetConsoleMode(handle, &mode);
      (void)::SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
      (void)::SetConsoleOutputCP(CP_UTF8);
    }
  }
}

std::ptrdiff_t read_next(int descriptor, void* bytes, std::size_t size) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  DWORD count = 0;
  if (::ReadFile(handle, bytes, static_cast<DWORD>(std::min(size, kMost)), &count, nullptr))
    return static_cast<std::ptrdiff_t>(count);
  const DWORD error = ::GetLastError();
  // The writer of a pipe has closed it: the end.
  return error == ERROR_BROKEN_PIPE || error == ERROR_HANDLE_EOF ? 0 : windows::fail(error);
}

std::ptrdiff_t write_next(int descriptor, const void* bytes, std::size_t size) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  DWORD count = 0;
  if (!::WriteFile(handle, bytes, static_cast<DWORD>(std::min(size, kMost)), &count, nullptr)) return windows::fail();
  return static_cast<std::ptrdiff_t>(count);
}

int wait_to_read(int descriptor, int milliseconds) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  if (::GetFileType(handle) == FILE_TYPE_PIPE) return wait_for_pipe(handle, milliseconds);
  if (!is_console(handle)) return 1;
  const DWORD wait = milliseconds < 0 ? INFINITE : static_cast<DWORD>(milliseconds);
  return ::WaitForSingleObject(handle, wait) == WAIT_TIMEOUT ? 0 : 1;
}

std::int64_t position_of(int descriptor) noexcept {
  return move(descriptor, FILE_CURRENT);
}

std::int64_t move_to_end(int descriptor) noexcept {
  return move(descriptor, FILE_END);
}

}  // namespace safetensors::os
