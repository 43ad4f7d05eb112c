// The calls of System that every POSIX system has.
#include "os/system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/memory.h"

namespace safetensors::os {

static_assert(sizeof(off_t) == sizeof kMaxOffset, "offsets have 64 bits: see _FILE_OFFSET_BITS");

int System::open_at(int directory, const char* name, OpenFlags flags, std::uint32_t permissions) noexcept {
  return os::open_at(directory, name, flags, permissions);
}

int System::close(int descriptor) noexcept {
  return ::close(descriptor);
}

std::ptrdiff_t System::read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  return os::read_at(descriptor, bytes, size, offset);
}

int System::change_mode(int descriptor, std::uint32_t permissions) noexcept {
  return ::fchmod(descriptor, static_cast<mode_t>(permissions));
}

int System::change_owner(int descriptor, std::uint32_t user, std::uint32_t group) noexcept {
  static_assert(static_cast<uid_t>(kKeepUser) == static_cast<uid_t>(-1));
  return ::fchown(descriptor, static_cast<uid_t>(user), static_cast<gid_t>(group));
}

int System::rename_at(int directory, const char* from, const char* to) noexcept {
  return ::renameat(directory, from, directory, to);
}

int System::make_directory(int directory, const char* name, std::uint32_t permissions) noexcept {
  return ::mkdirat(directory, name, static_cast<mode_t>(permissions));
}

int System::remove_directory(int directory, const char* name) noexcept {
  return ::unlinkat(directory, name, AT_REMOVEDIR);
}

int System::unlink_at(int directory, const char* name) noexcept {
  return ::unlinkat(directory, name, 0);
}

int System::duplicate(int descriptor) noexcept {
  return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

int System::lock(int descriptor) noexcept {
  return ::flock(descriptor, LOCK_EX | LOCK_NB);
}

int System::unlock(int descriptor) noexcept {
  return ::flock(descriptor, LOCK_UN);
}

bool maps_disturb_writers() noexcept {
  return false;
}

}  // namespace safetensors::os
