// The progress of long work on the console.
#pragma once

#include "console.h"

#include <safetensors/callback.h>

#include <cstdint>

namespace safetensors::cli {

// Returns a function for the member `progress` of the library's options. It shows the progress, and cancels the work
// after a signal that an Interrupt has caught. The console must outlive it.
[[nodiscard]] Callback<bool(std::uint64_t completed, std::uint64_t total)> shown_progress(Console& console);

}  // namespace safetensors::cli
