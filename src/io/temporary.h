// The temporary files and folders of writers: their names, the lock that tells whether the writer lives, and the
// removal of those of killed writers.
#pragma once

#include <safetensors/error.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/system.h"

namespace safetensors::io {

// The ends of the names of temporary files and folders.
inline constexpr std::string_view kTemporaryFile = ".tmp";
inline constexpr std::string_view kTemporaryFolder = ".folder";
// Returns `.safetensors-<16 hex digits>.tmp` with random digits. The name is short and plain, so it is valid on every
// file system.
[[nodiscard]] std::string temporary_name(std::string_view end = kTemporaryFile);
// Returns whether temporary_name() can return this name.
[[nodiscard]] bool is_temporary_name(std::string_view name, std::string_view end = kTemporaryFile) noexcept;
// Calls make(name) with other names while it returns EEXIST, EINTR, or EBUSY: a name is rarely in use, but
// clean_directory() may take a new file before its writer locks it. Returns the last result of make(), which is errno.
[[nodiscard]] int try_names(std::string_view end, const std::function<int(std::string& name)>& make);

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
[[nodiscard]] TemporaryLock lock_temporary(int descriptor) noexcept;
// Locks a new temporary. Returns false if clean_directory() has locked or removed it: before it has a lock, it looks
// like that of a dead writer.
[[nodiscard]] bool keep_temporary(int descriptor) noexcept;

// Holds the lock of an open folder, so that one writer at a time changes its set of files. The destructor releases it,
// also while a forked child has the folder open. The folder must outlive the lock.
class FolderLock {
 public:
  // Waits up to `attempts` times kWait while another writer holds the lock. On a file system where locks prove nothing
  // (see lock_temporary()), returns without a lock. path: for the error. Error: replace_failed with EWOULDBLOCK.
  [[nodiscard]] static Result<FolderLock> take(int folder, std::string_view path, int attempts = kAttempts) noexcept;
  FolderLock(FolderLock&& other) noexcept : folder_(std::exchange(other.folder_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();
  // false: locks prove nothing here, so another writer may be at work.
  [[nodiscard]] bool held() const noexcept { return folder_ >= 0; }

 private:
  // Ten minutes. A writer holds the lock while it writes the index, renames, syncs, and removes old files.
  static constexpr int kAttempts = 60'000;
  explicit FolderLock(int folder) noexcept : folder_(folder) {}

  int folder_;  // -1: no lock
};

struct CleanOptions {
  bool dry_run = false;  // removes nothing
  // Minimum age of a stale temporary on file systems where writers hold no lock. The age is the time since the last
  // change. These file systems are network file systems, user-space file systems, and those without `flock()`.
  std::chrono::seconds min_age = std::chrono::hours(24);
  std::size_t max_names = std::numeric_limits<std::size_t>::max();  // names to read, in the order of the system
};

// Removes the temporary files and folders that killed writers left: files called `.safetensors-<16 hex digits>.tmp`,
// and folders called `.safetensors-<16 hex digits>.folder`, which a CheckpointWriter makes.
//
// `directory` may be a symlink to a directory. Other symlinks are not followed. Only regular files and folders with
// exactly such a name are removed. A folder that holds another folder stays in place. A living writer of this library
// holds a lock (`flock`) on its temporary, and such a temporary stays in place. Call this function on the machine that
// writes: it cannot see the lock of a writer on another machine. On network file systems there are no locks.
//
// Returns the paths of the temporaries that it removed, or would remove without dry_run, in sorted order. A temporary
// that cannot be opened or removed stays. Errors: open_failed and read_failed (for `directory` itself), out_of_memory.
// Thread-safe, also while writers run.
[[nodiscard]] Result<std::vector<std::string>> clean_directory(std::string_view directory,
                                                               const CleanOptions& options = {}) noexcept;

// Removes the temporaries in a directory whose locks prove that their writers are dead. Ignores errors.
void remove_orphans(const std::string& directory, std::size_t max_names = CleanOptions().max_names) noexcept;

// Removes all regular files and symlinks in a directory. Returns 0 or errno.
[[nodiscard]] int remove_files(int directory, const std::string& path);

}  // namespace safetensors::io
