// Delays the signals that end a command until it has removed its unfinished output.
#pragma once

#include <safetensors/error.h>

#include <csignal>

#include <array>

namespace safetensors::cli {

// While an Interrupt exists, SIGINT, SIGTERM and SIGHUP are only recorded. The command checks caught(), stops, and
// removes its unfinished output. The destructor then ends the process by the signal. Signals that were ignored before
// stay ignored. Construct the Interrupt before the objects that remove output, so that their destructors run first.
// Only one Interrupt may exist at a time, on one thread.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  // Returns true after one of the signals came.
  [[nodiscard]] static bool caught();
  // Returns the error for a write that a signal stopped: Errc::cancelled.
  [[nodiscard]] static Error error();

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace safetensors::cli
