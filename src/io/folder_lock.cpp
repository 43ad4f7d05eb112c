// Takes the flock() of a folder. It never blocks in the system, so a program that is stopped while it holds the lock
// delays others for ten minutes and not for ever.
#include "io/folder_lock.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "io/temporary.h"
#include "os/system_error.h"

namespace safetensors::io {

Result<FolderLock> FolderLock::take(int folder, std::string_view path, int attempts, os::System& system) noexcept {
  constexpr std::chrono::milliseconds kWait(10);
  return base::guarded([&]() -> Result<FolderLock> {
    for (int i = 0; i < attempts; ++i) {
      switch (lock_temporary(folder, system)) {
        case TemporaryLock::taken:
          return FolderLock(folder, system);
        case TemporaryLock::unknown:
          return FolderLock(-1, system);
        case TemporaryLock::held:
          std::this_thread::sleep_for(kWait);
      }
    }
    return os::system_error(Errc::replace_failed, EWOULDBLOCK, "another writer is changing the files of the folder",
                            path);
  });
}

FolderLock::~FolderLock() {
  if (folder_ >= 0) (void)system_->unlock(folder_);
}

}  // namespace safetensors::io
