// Reads and writes the handles behind the descriptors, so that bytes stay as they are: the C library would change the
// ends of lines.
//
// Windows has no signals. It calls a handler of a console event on a thread of its own. After Ctrl-C the process goes
// on. If the console closes, or the user logs off, the process ends when the handler returns. So the handler waits
// then, and the process ends itself.
#include "os/command/command.h"

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <atomic>

#include "os/open.h"
#include "os/process.h"
#include "os/windows/native.h"

#include <shellapi.h>

namespace safetensors::os {
namespace {

constexpr DWORD kPause = 10;                       // milliseconds
constexpr unsigned kEndedByPipe = 128 + 13;        // as shells report SIGPIPE
constexpr unsigned kEndedByConsole = 0xC000'013A;  // STATUS_CONTROL_C_EXIT

std::atomic<bool> noted = false;

BOOL WINAPI note_event(DWORD event) {
  noted = true;
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) ::Sleep(INFINITE);
  return TRUE;
}

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

}  // namespace

// Splits the command line of the process, which is UTF-16, by the rules of Windows.
std::vector<std::string> process_arguments(int argc, char** argv) {
  int count = 0;
  wchar_t** const wide = ::CommandLineToArgvW(::GetCommandLineW(), &count);
  std::vector<std::string> arguments;
  // The name of the program is missing only if a program starts this one in an unusual way.
  for (int i = 1; i < (wide != nullptr ? count : argc); ++i)
    arguments.push_back(wide != nullptr ? windows::plain_utf8(wide[i]) : std::string(argv[i]));
  if (wide != nullptr) (void)::LocalFree(static_cast<void*>(wide));
  return arguments;
}

void ignore_write_signals() noexcept {}

void end_by_broken_pipe() noexcept {
  ::ExitProcess(kEndedByPipe);
}

NotedSignals::NotedSignals() noexcept {
  (void)::SetConsoleCtrlHandler(note_event, TRUE);
}

NotedSignals::~NotedSignals() {
  (void)::SetConsoleCtrlHandler(note_event, FALSE);
  if (came()) ::ExitProcess(kEndedByConsole);
}

bool NotedSignals::came() noexcept {
  return noted;
}

bool is_terminal(int descriptor) noexcept {
  return is_console(windows::handle_of(descriptor));
}

std::size_t terminal_columns(int descriptor) noexcept {
  CONSOLE_SCREEN_BUFFER_INFO info;
  if (!::GetConsoleScreenBufferInfo(windows::handle_of(descriptor), &info)) return 0;
  return static_cast<std::size_t>(std::max(0, info.srWindow.Right - info.srWindow.Left + 1));
}

// Also prepares a console for the text of the command, which is UTF-8. A console of Windows shows escape sequences,
// such as colours, only if the program switches them on.
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
  DWORD count = 0;
  const auto wanted = static_cast<DWORD>(std::min(size, kMaxTransfer));
  if (::ReadFile(windows::handle_of(descriptor), bytes, wanted, &count, nullptr))
    return static_cast<std::ptrdiff_t>(count);
  const DWORD error = ::GetLastError();
  // The writer of a pipe has closed it: the end.
  return error == ERROR_BROKEN_PIPE || error == ERROR_HANDLE_EOF ? 0 : windows::fail(error);
}

std::ptrdiff_t write_next(int descriptor, const void* bytes, std::size_t size) noexcept {
  DWORD count = 0;
  const auto wanted = static_cast<DWORD>(std::min(size, kMaxTransfer));
  if (!::WriteFile(windows::handle_of(descriptor), bytes, wanted, &count, nullptr)) return windows::fail();
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

bool has_offsets(int descriptor) noexcept {
  return ::GetFileType(windows::handle_of(descriptor)) == FILE_TYPE_DISK;
}

// Windows removes the file when its last handle is closed.
Descriptor make_unnamed_file(const std::string& folder) {
  const std::string name = folder + "/safetensors-" + std::to_string(random_bits());
  const auto path = windows::native_path(kWorkingDirectory, name);
  if (!path) return Descriptor(-1);
  windows::Handle file(::CreateFileW(path->c_str(), GENERIC_READ | GENERIC_WRITE | DELETE, windows::kShareAll, nullptr,
                                     CREATE_NEW, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, nullptr));
  return Descriptor(file.valid() ? windows::descriptor_of(file) : windows::fail());
}

}  // namespace safetensors::os
