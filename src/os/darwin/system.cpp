// The calls of System that macOS has in a form of its own. Those that it lacks fail with EOPNOTSUPP.
#include "os/system.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace safetensors::os {
namespace {

int unsupported() noexcept {
  errno = EOPNOTSUPP;
  return -1;
}

// Whether the file system does not know a call. Other errors are about the device or the file.
bool lacks_call(int error_number) noexcept {
  return error_number == ENOTSUP || error_number == EOPNOTSUPP || error_number == EINVAL || error_number == ENOTTY ||
         error_number == ENOSYS;
}

}  // namespace

const bool DescriptorPath::kLeadsToSameFile = false;

DescriptorPath::DescriptorPath(int descriptor) noexcept {
  static_assert(sizeof text >= MAXPATHLEN);
  if (::fcntl(descriptor, F_GETPATH, text) != 0) std::memcpy(text, "/dev/null", 10);  // nothing is below it
}

// macOS refuses larger writes than INT_MAX.
std::ptrdiff_t System::write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  constexpr std::size_t kMax = std::size_t{1} << 30;
  return ::pwrite(descriptor, bytes, std::min(size, kMax), static_cast<off_t>(offset));
}

std::ptrdiff_t System::copy_range(int, std::uint64_t, int, std::uint64_t, std::size_t) noexcept {
  return unsupported();
}

// macOS reads unaligned bytes through the page cache, and reports no error.
int System::direct_alignment(int, DirectAlignment& alignment) noexcept {
  alignment = {.known = true, .memory = 4096, .offset = 4096};
  return 0;
}

// Reserves space after the end of the file, and then moves the end.
int System::preallocate(int descriptor, std::uint64_t size) noexcept {
  struct stat found;
  if (::fstat(descriptor, &found) != 0) return -1;
  const auto end = static_cast<off_t>(size);
  if (end <= found.st_size) return 0;
  fstore_t space{.fst_flags = F_ALLOCATEALL,
                 .fst_posmode = F_PEOFPOSMODE,
                 .fst_offset = 0,
                 .fst_length = end - found.st_size,
                 .fst_bytesalloc = 0};
  if (::fcntl(descriptor, F_PREALLOCATE, &space) != 0) return -1;
  return ::ftruncate(descriptor, end);
}

int System::start_writeback(int) noexcept {
  return unsupported();
}

// fsync() of macOS does not wait for the device. F_FULLFSYNC does. F_BARRIERFSYNC keeps the order of writes. File
// systems of networks have neither.
int System::sync(int descriptor) noexcept {
  for (const int call : {F_FULLFSYNC, F_BARRIERFSYNC}) {
    if (::fcntl(descriptor, call) == 0) return 0;
    if (!lacks_call(errno)) return -1;
  }
  return ::fsync(descriptor);
}

int System::sync_file_system(int) noexcept {
  return unsupported();
}

int System::rename_new(int directory, const char* from, const char* to) noexcept {
  if (::renameatx_np(directory, from, directory, to, RENAME_EXCL) == 0) return 0;
  // Without the flag, rename() replaces an empty directory and no other one.
  return lacks_call(errno) ? ::renameat(directory, from, directory, to) : -1;
}

int System::link_at(int, int, const char*) noexcept {
  return unsupported();
}

bool System::linkable(int) noexcept {
  return false;
}

}  // namespace safetensors::os
