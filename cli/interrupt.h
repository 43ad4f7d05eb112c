// Signals that end a command, held back while it has something to clear away.
#pragma once

#include <safetensors/error.h>

#include <csignal>

#include <array>

namespace safetensors::cli {

// While one exists, SIGINT, SIGTERM and SIGHUP are only noted: the command looks at caught(), stops, and removes what
// it has begun. The destructor then ends the process by the signal, as if it had come at that moment. Signals that were
// ignored when it was made stay ignored. Make it before what is to be cleared away; one at a time, on one thread.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  [[nodiscard]] static bool caught();
  // What a write that was stopped returns: Errc::cancelled.
  [[nodiscard]] static Error error();

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace safetensors::cli
