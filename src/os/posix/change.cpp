// The calls that change files, as every POSIX system has them.
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "os/open.h"
#include "os/system.h"

namespace safetensors::os {

std::ptrdiff_t write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  return ::pwrite(descriptor, bytes, std::min(size, kMaxTransfer), static_cast<off_t>(offset));
}

int change_mode(int descriptor, std::uint32_t permissions) noexcept {
  return ::fchmod(descriptor, static_cast<mode_t>(permissions));
}

int change_owner(int descriptor, std::uint32_t user, std::uint32_t group) noexcept {
  static_assert(static_cast<uid_t>(kKeepUser) == static_cast<uid_t>(-1));
  return ::fchown(descriptor, static_cast<uid_t>(user), static_cast<gid_t>(group));
}

int rename_at(int directory, const char* from, const char* to) noexcept {
  return ::renameat(directory, from, directory, to);
}

int make_directory(int directory, const char* name, std::uint32_t permissions) noexcept {
  return ::mkdirat(directory, name, static_cast<mode_t>(permissions));
}

int remove_directory(int directory, const char* name) noexcept {
  return ::unlinkat(directory, name, AT_REMOVEDIR);
}

int unlink_at(int directory, const char* name) noexcept {
  return ::unlinkat(directory, name, 0);
}

int lock(int descriptor) noexcept {
  return ::flock(descriptor, LOCK_EX | LOCK_NB);
}

int unlock(int descriptor) noexcept {
  return ::flock(descriptor, LOCK_UN);
}

}  // namespace safetensors::os
