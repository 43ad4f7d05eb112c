// Sets the handlers. A handler only stores the signal's number, so it may run at any time and on any thread, including
// threads of the library. SA_RESTART: no system call of the library or of the C library is interrupted.
#include "os/command/signals.h"

#include <array>
#include <csignal>
#include <cstddef>

namespace safetensors::os {
namespace {

constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t noted_signal = 0;
std::array<struct sigaction, kEnding.size()> handlers_before;  // of the one NotedSignals

extern "C" void note_signal(int number) {
  noted_signal = number;
}

}  // namespace

void ignore_write_signals() noexcept {
  (void)::signal(SIGPIPE, SIG_IGN);
  (void)::signal(SIGXFSZ, SIG_IGN);
}

void end_by_broken_pipe() noexcept {
  (void)::signal(SIGPIPE, SIG_DFL);
  (void)::raise(SIGPIPE);
}

NotedSignals::NotedSignals() noexcept {
  struct sigaction note {};
  note.sa_handler = note_signal;
  note.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    ::sigaction(kEnding[i], nullptr, &handlers_before[i]);
    if (handlers_before[i].sa_handler != SIG_IGN) ::sigaction(kEnding[i], &note, nullptr);
  }
}

NotedSignals::~NotedSignals() {
  for (std::size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &handlers_before[i], nullptr);
  if (came()) (void)::raise(noted_signal);
}

bool NotedSignals::came() noexcept {
  return noted_signal != 0;
}

}  // namespace safetensors::os
