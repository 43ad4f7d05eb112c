// The four exit codes of the command.
#pragma once

#include <safetensors/error.h>

#include <algorithm>

namespace safetensors::cli {

enum class Exit : int {
  good = 0,
  negative = 1,  // an invalid file; a name that is not in it
  usage = 2,     // the command line asks for something that cannot be
  system = 3,    // the system refused: cannot open, read or write
};

// Over several paths the highest wins; usage errors end a command before its first path.
inline Exit worse(Exit a, Exit b) {
  return std::max(a, b);
}

// What an error of the library comes to.
inline Exit exit_of(const Error& error) {
  if (is_system_error(error.code) || error.code == Errc::unsupported) return Exit::system;
  if (error.code == Errc::slice_syntax || error.code == Errc::slice_step) return Exit::usage;
  return Exit::negative;
}

}  // namespace safetensors::cli
