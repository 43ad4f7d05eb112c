// The handler only stores the signal's number, so it may run at any time and on any thread, including threads of the
// library. SA_RESTART: no system call of the library or of the C library is interrupted.
#include "interrupt.h"

namespace safetensors::cli {
namespace {

volatile std::sig_atomic_t caught_signal = 0;

extern "C" void note_signal(int number) {
  caught_signal = number;
}

}  // namespace

Interrupt::Interrupt() {
  struct sigaction note = {};
  note.sa_handler = note_signal;
  note.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &note, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  if (caught()) std::raise(caught_signal);
}

bool Interrupt::caught() {
  return caught_signal != 0;
}

Error Interrupt::error() {
  return {.code = Errc::cancelled, .path = {}, .message = "stopped by a signal"};
}

}  // namespace safetensors::cli
