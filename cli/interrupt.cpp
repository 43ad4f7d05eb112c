// The error of a command that a signal stopped. The handlers are in os/command/signals.cpp.
#include "interrupt.h"

namespace safetensors::cli {

Error Interrupt::error() {
  return {.code = Errc::cancelled, .path = {}, .message = "stopped by a signal"};
}

}  // namespace safetensors::cli
