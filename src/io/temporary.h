// The temporary files of writers: their names, and the lock that tells whether the writer lives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "os/system.h"

namespace safetensors::io {

// Returns `.safetensors-<16 hex digits>.tmp` with random digits. The name is short and plain, so it is valid on every
// file system.
[[nodiscard]] std::string temporary_name();
// Number of names to try. A name is rarely in use, but clean_directory() may take a new file before its writer locks
// it.
inline constexpr int kMaxNameAttempts = 100;
// The same for a folder: `.safetensors-<16 hex digits>.folder`.
[[nodiscard]] std::string temporary_folder_name();
// Returns whether temporary_name() or temporary_folder_name() can return this name.
[[nodiscard]] bool is_temporary_name(std::string_view name) noexcept;
[[nodiscard]] bool is_temporary_folder_name(std::string_view name) noexcept;

// Returns 128 random bits as 32 hex digits.
[[nodiscard]] std::string random_id();
// Returns whether random_id() can return this text.
[[nodiscard]] bool is_random_id(std::string_view text) noexcept;

// A writer holds the lock of its temporary from the first byte until the file is in place. The system releases the lock
// when the writer and all children that it forked meanwhile have ended.
enum class TemporaryLock : std::uint8_t {
  taken,    // the lock was free; this open file holds it until it is closed
  held,     // a living writer holds the lock
  unknown,  // a network file system, or one without locks: no writer locks there
};
// Does not lock on network file systems: a lock there can wait for a server, and other machines may not see it.
[[nodiscard]] TemporaryLock lock_temporary(int descriptor, os::System& system) noexcept;

}  // namespace safetensors::io
