// The calls of Linux that change files, and what writers ask about names. Each does little more than one system call:
// tests answer system calls in place of the kernel, so all decisions are in the callers.
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "os/directory.h"
#include "os/file_status.h"
#include "os/path.h"
#include "os/system.h"

namespace safetensors::os {

std::ptrdiff_t copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                          std::size_t size) noexcept {
  auto from_position = static_cast<off_t>(from_offset);
  auto to_position = static_cast<off_t>(to_offset);
  return ::copy_file_range(from, &from_position, to, &to_position, size, 0);
}

int preallocate(int descriptor, std::uint64_t size) noexcept {
  return ::fallocate(descriptor, 0, 0, static_cast<off_t>(size));
}

int start_writeback(int descriptor) noexcept {
  return ::sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int sync(int descriptor) noexcept {
  return ::fsync(descriptor);
}

int sync_file_system(int descriptor) noexcept {
  return ::syncfs(descriptor);
}

int rename_new(int directory, const char* from, const char* to) noexcept {
  constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE; musl before 1.2.6 has no renameat2()
  if (::syscall(SYS_renameat2, directory, from, directory, to, kNoReplace) == 0) return 0;
  // Without the flag, rename() replaces an empty directory and no other one.
  return errno == EINVAL || errno == ENOSYS ? ::renameat(directory, from, directory, to) : -1;
}

int link_at(int descriptor, int directory, const char* name) noexcept {
  // AT_EMPTY_PATH would not need /proc, but before Linux 6.10 it needs a capability.
  return ::linkat(AT_FDCWD, DescriptorPath(descriptor).text, directory, name, AT_SYMLINK_FOLLOW);
}

bool linkable(int descriptor) noexcept {
  FileStatus file, found;
  return status_of(descriptor, file) == 0 &&
         status_of_path(DescriptorPath(descriptor).text, Symlinks::follow, found) == 0 &&
         file.identity.same_file(found.identity);
}

std::string name_key(std::string_view name) {
  return std::string(name);
}

Result<std::vector<std::string>> paths_of_open_files() {
  constexpr const char* kOpenFiles = "/proc/self/fd";
  Result<std::vector<std::string>> paths = list_directory(kOpenFiles);
  if (!paths) return paths;
  for (std::string& path : *paths) path = join_path(kOpenFiles, path);
  return paths;
}

}  // namespace safetensors::os
