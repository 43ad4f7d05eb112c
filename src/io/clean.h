// Removes the temporary files of killed writers.
#pragma once

#include <safetensors/clean.h>

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "os/system.h"

namespace safetensors::io {

inline constexpr std::size_t kAllNames = std::numeric_limits<std::size_t>::max();

// See the public function. max_names: how many names of each directory are read.
[[nodiscard]] Result<std::vector<Temporary>> clean_directory(std::string_view directory, const CleanOptions& options,
                                                             os::System& system = os::real_system(),
                                                             std::size_t max_names = kAllNames) noexcept;

// Removes the temporaries in a directory whose locks prove that their writers are dead. Ignores errors. max_names: how
// many names are read, in the order of the system.
void remove_orphans(const std::string& directory, os::System& system, std::size_t max_names = kAllNames) noexcept;

}  // namespace safetensors::io
