// Removes the temporary files of killed writers.
#pragma once

#include <safetensors/clean.h>

#include <string>

#include <string_view>
#include <vector>

#include "os/system.h"

namespace safetensors::io {

// See the public function.
[[nodiscard]] Result<std::vector<Temporary>> clean_directory(std::string_view directory, const CleanOptions& options,
                                                             os::System& system = os::real_system()) noexcept;

// Removes the temporaries in a directory whose locks prove that their writers are dead. Ignores errors.
void remove_orphans(const std::string& directory, os::System& system) noexcept;

}  // namespace safetensors::io
