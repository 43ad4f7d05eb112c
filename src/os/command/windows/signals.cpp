// Handles the events of the console, and errors of mapped memory.
//
// Windows has no signals. It calls a handler of a console event on a thread of its own. After Ctrl-C the process goes
// on. If the console closes, or the user logs off, the process ends when the handler returns. So the handler waits
// then, and the process ends itself.
#include "os/command/signals.h"

#include <atomic>
#include <cstring>

#include "os/windows/native.h"

namespace safetensors::os {
namespace {

constexpr unsigned kEndedByPipe = 128 + 13;        // as shells report SIGPIPE
constexpr unsigned kEndedByConsole = 0xC000'013A;  // STATUS_CONTROL_C_EXIT
constexpr DWORD kInPageError = 0xC000'0006;        // EXCEPTION_IN_PAGE_ERROR

std::atomic<bool> noted = false;
const char* page_error_text = "";
int page_error_exit_code = 0;

BOOL WINAPI note_event(DWORD event) {
  noted = true;
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) ::Sleep(INFINITE);
  return TRUE;
}

LONG WINAPI end_process(EXCEPTION_POINTERS* found) {
  if (found->ExceptionRecord->ExceptionCode != kInPageError) return EXCEPTION_CONTINUE_SEARCH;
  DWORD written = 0;
  (void)::WriteFile(::GetStdHandle(STD_ERROR_HANDLE), page_error_text, static_cast<DWORD>(std::strlen(page_error_text)),
                    &written, nullptr);
  (void)::TerminateProcess(::GetCurrentProcess(), static_cast<UINT>(page_error_exit_code));
  return EXCEPTION_CONTINUE_SEARCH;
}

}  // namespace

void ignore_write_signals() noexcept {}

void end_by_broken_pipe() noexcept {
  ::ExitProcess(kEndedByPipe);
}

void end_on_bus_error(const char* text, int exit_code) noexcept {
  page_error_text = text;
  page_error_exit_code = exit_code;
  (void)::AddVectoredExceptionHandler(1, end_process);
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

}  // namespace safetensors::os
