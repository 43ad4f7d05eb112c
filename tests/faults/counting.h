// The state that both kinds of injection share: of allocations and of system calls.
#pragma once

#include <cstdint>

#include "faults/injection.h"

namespace safetensors::test::faults {

// Counts an allocation of the library and says whether it has to fail.
[[nodiscard]] bool fail_allocation() noexcept;
// Counts a system call and says whether it has to fail.
[[nodiscard]] bool fail_system_call() noexcept;
// Of the run under way.
[[nodiscard]] Fault chosen() noexcept;

}  // namespace safetensors::test::faults
