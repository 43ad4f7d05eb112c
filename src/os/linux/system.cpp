// Forwards each function of System to a system call, and does little more: tests replace this class to make calls fail,
// so all decisions are in the callers.
#include "os/system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "os/file_status.h"

namespace safetensors::os {

const bool DescriptorPath::kLeadsToSameFile = true;

DescriptorPath::DescriptorPath(int descriptor) noexcept {
  (void)std::snprintf(text, sizeof text, "/proc/self/fd/%d", descriptor);
}

std::ptrdiff_t System::write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  return ::pwrite(descriptor, bytes, size, static_cast<off_t>(offset));
}

std::ptrdiff_t System::copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                                  std::size_t size) noexcept {
  auto from_position = static_cast<off_t>(from_offset);
  auto to_position = static_cast<off_t>(to_offset);
  return ::copy_file_range(from, &from_position, to, &to_position, size, 0);
}

int System::direct_alignment(int descriptor, DirectAlignment& alignment) noexcept {
  alignment = {};
#ifdef STATX_DIOALIGN
  struct statx status;
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0) return -1;
  if ((status.stx_mask & STATX_DIOALIGN) != 0)
    alignment = {.known = true, .memory = status.stx_dio_mem_align, .offset = status.stx_dio_offset_align};
#else
  (void)descriptor;
#endif
  return 0;
}

int System::preallocate(int descriptor, std::uint64_t size) noexcept {
  return ::fallocate(descriptor, 0, 0, static_cast<off_t>(size));
}

int System::start_writeback(int descriptor) noexcept {
  return ::sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int System::sync(int descriptor) noexcept {
  return ::fsync(descriptor);
}

int System::sync_file_system(int descriptor) noexcept {
  return ::syncfs(descriptor);
}

int System::rename_new(int directory, const char* from, const char* to) noexcept {
  constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE; musl before 1.2.6 has no renameat2()
  if (::syscall(SYS_renameat2, directory, from, directory, to, kNoReplace) == 0) return 0;
  // Without the flag, rename() replaces an empty directory and no other one.
  return errno == EINVAL || errno == ENOSYS ? ::renameat(directory, from, directory, to) : -1;
}

int System::link_at(int descriptor, int directory, const char* name) noexcept {
  // AT_EMPTY_PATH would not need /proc, but before Linux 6.10 it needs a capability.
  return ::linkat(AT_FDCWD, DescriptorPath(descriptor).text, directory, name, AT_SYMLINK_FOLLOW);
}

bool System::linkable(int descriptor) noexcept {
  FileStatus file, found;
  return status_of(descriptor, file) == 0 &&
         status_of_path(DescriptorPath(descriptor).text, Symlinks::follow, found) == 0 &&
         file.identity.same_file(found.identity);
}

}  // namespace safetensors::os
