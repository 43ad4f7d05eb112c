// The four exit codes of the command.
#pragma once

#include <safetensors/error.h>

#include <algorithm>

namespace safetensors::cli {

enum class Exit : int {
  good = 0,
  negative = 1,  // an invalid file, or a name that is not in it
  usage = 2,     // the command line is invalid
  system = 3,    // an error of the system: cannot open, read or write
};

// With several paths the highest code is returned. A usage error ends a command before its first path.
inline Exit worse(Exit a, Exit b) {
  return std::max(a, b);
}

// The exit code for an error of the library.
inline Exit exit_of(const Error& error) {
  if (is_system_error(error.code) || error.code == Errc::unsupported) return Exit::system;
  if (error.code == Errc::slice_syntax || error.code == Errc::slice_step) return Exit::usage;
  return Exit::negative;
}

}  // namespace safetensors::cli
