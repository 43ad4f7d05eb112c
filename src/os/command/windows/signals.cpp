// Handles the events of the console.
//
// Windows has no signals. It calls a handler of a console event on a thread of its own. After Ctrl-C the process goes
// on. If the console closes, or the user logs off, the process ends when the handler returns. So the handler waits
// then, and the process ends itself.
#include "os/command/signals.h"

#include <atomic>

#include "os/windows/native.h"

namespace safetensors::os {
namespace {

constexpr unsigned kEndedByPipe = 128 + 13;        // as shells report SIGPIPE
constexpr unsigned kEndedByConsole = 0xC000'013A;  // STATUS_CONTROL_C_EXIT

std::atomic<bool> noted = false;

BOOL WINAPI note_event(DWORD event) {
  noted = true;
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) ::Sleep(INFINITE);
  return TRUE;
}

}  // namespace

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

}  // namespace safetensors::os
