// The number of this process, and random bits.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/hash.h"

namespace safetensors::os {

using base::process_id;

// Returns the number of processors that this process may use. If the system does not tell, a large number.
[[nodiscard]] unsigned allowed_processors() noexcept;

// Returns 64 random bits, which need not be secret. The clock is part of them: a forked child has the secret and the
// counter of its parent, and its process ID may be that of an earlier child.
[[nodiscard]] inline std::uint64_t random_bits() noexcept {
  return base::HashKey::random().k0 ^
         static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace safetensors::os
