// Finding and removing what killed writers left behind.
#pragma once

#include <safetensors/error.h>
#include <safetensors/export.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// What clean_directory() found out about a temporary file, or did with it.
enum class TemporaryState : std::uint8_t {
  removed,  ///< no writer used it
  stale,    ///< the same in a dry run: it was left in place
  in_use,   ///< a living writer holds its lock: left in place
  recent,   ///< locks say nothing here, and it was changed less than CleanOptions::min_age ago: left in place
  failed,   ///< see error: left in place
};

/// The temporary of a writer, or a directory that could not be read.
struct Temporary {
  std::string path;        ///< the directory's path as it was given, a separator, and the path below it
  std::uint64_t size = 0;  ///< in bytes; 0 for a directory
  TemporaryState state = TemporaryState::stale;
  std::optional<Error> error = std::nullopt;  ///< set exactly when state is failed
};

struct CleanOptions {
  /// Only look: nothing is removed.
  bool dry_run = false;
  /// Also the directories below. Symlinks are not followed.
  bool recursive = false;
  /// On file systems where writers hold no lock (those of a network or of a user's process, and those without flock()),
  /// a temporary is stale when nobody has changed it for so long.
  std::chrono::seconds min_age = std::chrono::hours(24);
};

/// Removes the temporaries (`.safetensors-<16 hex digits>.tmp`) of writers that were killed.
///
/// Only regular files with exactly such a name are touched; a symlink to a directory is followed only as `directory`
/// itself. A living writer of this library holds the lock (flock) of its temporary, which is then left in place. Run
/// this on the machine that writes: the lock of a writer on another machine cannot be seen, and on that machine's
/// network file system there is none.
///
/// Returns the temporaries in order of their paths; what could not be removed is among them, with its error.
/// Errors: open_failed, read_failed (`directory` itself), out_of_memory. Safe to call from any thread, and beside
/// writers.
[[nodiscard]] SAFETENSORS_API Result<std::vector<Temporary>> clean_directory(std::string_view directory,
                                                                             const CleanOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
