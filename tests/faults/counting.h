// The counters of a run, for the injection of failed allocations and of failed system calls.
#pragma once

#include <cstdint>

#include "faults/injection.h"

namespace safetensors::test::faults {

// Counts an allocation of the library. Returns whether it must fail.
[[nodiscard]] bool fail_allocation() noexcept;
// Counts a system call. Returns whether it must fail.
[[nodiscard]] bool fail_system_call() noexcept;
// Returns the fault of the current run.
[[nodiscard]] Fault chosen() noexcept;

}  // namespace safetensors::test::faults
