// A file without a name.
#pragma once

#include <string>

#include "os/descriptor.h"

namespace safetensors::os {

// Makes a file for reading and writing in a folder. It is gone when its descriptor is closed, or the process ends. If
// that fails, the descriptor is invalid, and errno is the reason. Throws std::bad_alloc.
[[nodiscard]] Descriptor make_unnamed_file(const std::string& folder);

}  // namespace safetensors::os
