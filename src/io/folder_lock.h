// Lets one writer at a time change the set of files of a folder.
#pragma once

#include <safetensors/error.h>

#include <string_view>
#include <utility>

#include "os/system.h"

namespace safetensors::io {

// Holds the lock of an open folder. The destructor releases it, also while a forked child has the folder open. The
// folder and the system must outlive the lock.
class FolderLock {
 public:
  // Waits up to `attempts` times kWait while another writer holds the lock. On a file system where locks prove nothing
  // (see lock_temporary()), returns without a lock. path: for the error. Error: replace_failed with EWOULDBLOCK.
  [[nodiscard]] static Result<FolderLock> take(int folder, std::string_view path, int attempts = kAttempts,
                                               os::System& system = os::real_system()) noexcept;
  FolderLock(FolderLock&& other) noexcept : folder_(std::exchange(other.folder_, -1)), system_(other.system_) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();
  // false: locks prove nothing here, so another writer may be at work.
  [[nodiscard]] bool held() const noexcept { return folder_ >= 0; }

 private:
  // Ten minutes. A writer holds the lock while it writes the index, renames, syncs, and removes old files.
  static constexpr int kAttempts = 60'000;
  FolderLock(int folder, os::System& system) noexcept : folder_(folder), system_(&system) {}

  int folder_;  // -1: no lock
  os::System* system_;
};

}  // namespace safetensors::io
