// The error of a command that a signal stopped. The handlers are in src/os/command.
#include "interrupt.h"

namespace safetensors::cli {

Error Interrupt::error() {
  return {.code = Errc::cancelled, .path = {}, .message = "stopped by a signal"};
}

}  // namespace safetensors::cli
