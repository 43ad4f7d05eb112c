// Connects the library's progress callbacks with the console and with signals.
#include "progress.h"

#include "interrupt.h"

namespace safetensors::cli {

Callback<bool(std::uint64_t completed, std::uint64_t total)> shown_progress(Console& console) {
  return [&console](std::uint64_t completed, std::uint64_t total) {
    console.progress(completed, total);
    return !Interrupt::caught();
  };
}

}  // namespace safetensors::cli
