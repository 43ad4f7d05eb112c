// Removing the temporaries of killed writers.
#pragma once

#include <safetensors/clean.h>

#include <string_view>
#include <vector>

#include "io/system.h"

namespace safetensors::io {

// See the public function.
[[nodiscard]] Result<std::vector<Temporary>> clean_directory(std::string_view directory, const CleanOptions& options,
                                                             System& system = real_system()) noexcept;

}  // namespace safetensors::io
