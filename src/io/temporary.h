// The temporary files of writers: their names, and the lock that tells a living writer's from a dead one's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "os/system.h"

namespace safetensors::io {

// `.safetensors-<16 hex digits>.tmp`, at random. Short and of plain letters: valid wherever the target's name is.
[[nodiscard]] std::string temporary_name();
// Whether a writer could have made this name, letter for letter.
[[nodiscard]] bool is_temporary_name(std::string_view name) noexcept;

// A writer holds the lock of its temporary from the first byte until the file is in place. The system gives it back
// when the writer dies, and all children that it forked meanwhile.
enum class TemporaryLock : std::uint8_t {
  taken,    // nobody held it; it lasts until the open file is closed
  held,     // a writer lives
  unknown,  // a network file system, or one without locks: nobody locks there
};
// Network file systems are not asked: a lock there may wait for a server, and need not be seen by other machines.
[[nodiscard]] TemporaryLock lock_temporary(int descriptor, os::System& system) noexcept;

}  // namespace safetensors::io
