// Runs the handlers of signals, such as that of Ctrl-C, while a call of the extension lasts.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

namespace safetensors::python {

// Runs signal handlers, and throws the exception that one raises. Call it with the GIL.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}
// Call it in each iteration of a loop that may be long. Runs signal handlers in every 1024th iteration, and throws the
// exception that one raises. round: counts the iterations.
inline void check_signals(std::size_t round) {
  if ((round & 0x3FF) == 0x3FF) check_signals();
}
// Runs signal handlers. Returns true if one raised an exception, which stays set. Call it without the GIL.
[[nodiscard]] bool interrupted();

}  // namespace safetensors::python
