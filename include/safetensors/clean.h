/// @file
/// Finds and removes the temporary files that killed writers left behind.
#pragma once

#include <safetensors/error.h>
#include <safetensors/export.h>
#include <safetensors/time_span.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// The state in which clean_directory() found a temporary file, or its action on the file.
enum class TemporaryState : std::uint8_t {
  removed,  ///< removed, because no writer used it
  stale,    ///< left in place by a dry run; no writer uses it
  in_use,   ///< left in place, because a living writer holds its lock
  recent,   ///< left in place: locks prove nothing here, and it changed less than CleanOptions::min_age ago
  failed,   ///< left in place because of an error; Temporary::error holds it
};

/// The temporary file or folder of a writer, or a directory that could not be read.
struct Temporary {
  std::string path;        ///< the path given to clean_directory(), a separator, and the path below it
  std::uint64_t size = 0;  ///< in bytes; of a temporary folder, the size of its files; of another directory, 0
  TemporaryState state = TemporaryState::stale;  ///< the state of the file, or the action on it
  std::optional<Error> error = std::nullopt;     ///< set if and only if `state` is `failed`
};

/// Options of clean_directory().
struct CleanOptions {
  /// Remove nothing. Only report.
  bool dry_run = false;
  /// Minimum age of a stale temporary on file systems where writers hold no lock. The age is the time since the last
  /// change. These file systems are network file systems, user-space file systems, and those without `flock()`.
  TimeSpan min_age = TimeSpan::hours(24);
};

/// Removes the temporary files and folders that killed writers left: files called `.safetensors-<16 hex digits>.tmp`,
/// and folders called `.safetensors-<16 hex digits>.folder`, which a CheckpointWriter makes.
///
/// `directory` may be a symlink to a directory. Other symlinks are not followed. Only regular files and folders with
/// exactly such a name are removed. A folder that holds another folder stays in place. A living writer of this library
/// holds a lock (`flock`) on its temporary, and such a temporary stays in place. Call this function on the machine that
/// writes: it cannot see the lock of a writer on another machine. On network file systems there are no locks.
///
/// Returns the temporaries, sorted by path. A temporary that could not be removed is in the list, with its error.
/// Errors: open_failed and read_failed (for `directory` itself), out_of_memory.
/// Thread-safe, also while writers run.
[[nodiscard]] SAFETENSORS_API Result<std::vector<Temporary>> clean_directory(std::string_view directory,
                                                                             const CleanOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
