// Delays the signals that end a command until it has removed its unfinished output.
#pragma once

#include "console.h"

#include <safetensors/callback.h>
#include <safetensors/error.h>

#include "os/command/command.h"

#include <cstdint>

namespace safetensors::cli {

// While an Interrupt exists, SIGINT, SIGTERM and SIGHUP are only recorded. The command checks caught(), stops, and
// removes its unfinished output. The destructor then ends the process by the signal. Signals that were ignored before
// stay ignored. Construct the Interrupt before the objects that remove output, so that their destructors run first.
// Only one Interrupt may exist at a time, on one thread.
class Interrupt {
 public:
  // Returns true after one of the signals came.
  [[nodiscard]] static bool caught() { return os::NotedSignals::came(); }
  // Returns the error for a write that a signal stopped: Errc::cancelled.
  [[nodiscard]] static Error error() { return fault(Errc::cancelled, "stopped by a signal"); }

 private:
  os::NotedSignals signals_;
};

// Returns a function for the member `progress` of the library's options. It shows the progress, and cancels the work
// after a signal that an Interrupt has caught. The console must outlive it.
[[nodiscard]] inline Callback<bool(std::uint64_t completed, std::uint64_t total)> shown_progress(Console& console) {
  return [&console](std::uint64_t completed, std::uint64_t total) {
    console.progress(completed, total);
    return !Interrupt::caught();
  };
}

}  // namespace safetensors::cli
