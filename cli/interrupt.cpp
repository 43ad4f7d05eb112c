// The error of a command that a signal stopped. The handlers are in src/os/command.
#include "interrupt.h"

namespace safetensors::cli {

Error Interrupt::error() {
  return fault(Errc::cancelled, "stopped by a signal");
}

// Connects the library's progress callbacks with the console and with signals.

Callback<bool(std::uint64_t completed, std::uint64_t total)> shown_progress(Console& console) {
  return [&console](std::uint64_t completed, std::uint64_t total) {
    console.progress(completed, total);
    return !Interrupt::caught();
  };
}

}  // namespace safetensors::cli
