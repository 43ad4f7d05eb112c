// The number of this process, and random bits.
#pragma once

#include <cstdint>

namespace safetensors::os {

// Returns the ID of this process. Asks the system every time, because a stored ID would be wrong in the child of a
// fork.
[[nodiscard]] std::uint64_t process_id() noexcept;

// Returns the number of processors that this process may use. If the system does not tell, a large number.
[[nodiscard]] unsigned allowed_processors() noexcept;

// Returns 64 random bits. Never waits. If the system has no randomness yet, early in the boot, they come from the
// clock, the process and an address: such bits are not secret.
[[nodiscard]] std::uint64_t random_bits() noexcept;

// Waits until a signal handler has run, or a signal ends the process.
void wait_for_signal() noexcept;

}  // namespace safetensors::os
