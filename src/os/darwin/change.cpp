// The calls that change files and that macOS has in a form of its own, and the paths of open files.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "os/directory.h"
#include "os/system.h"

namespace safetensors::os {

namespace {

// Whether the file system does not know a call. Other errors are about the device or the file.
bool lacks_call(int error_number) noexcept {
  return error_number == ENOTSUP || error_number == EOPNOTSUPP || error_number == EINVAL || error_number == ENOTTY ||
         error_number == ENOSYS;
}

}  // namespace

// Reserves space after the end of the file, and then moves the end.
int preallocate(int descriptor, std::uint64_t size) noexcept {
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

// fsync() of macOS does not wait for the device. F_FULLFSYNC does. F_BARRIERFSYNC keeps the order of writes. File
// systems of networks have neither.
int sync(int descriptor) noexcept {
  for (const int call : {F_FULLFSYNC, F_BARRIERFSYNC}) {
    if (::fcntl(descriptor, call) == 0) return 0;
    if (!lacks_call(errno)) return -1;
  }
  return ::fsync(descriptor);
}

int rename_new(int directory, const char* from, const char* to) noexcept {
  if (::renameatx_np(directory, from, directory, to, RENAME_EXCL) == 0) return 0;
  // Without the flag, rename() replaces an empty directory and no other one.
  return lacks_call(errno) ? ::renameat(directory, from, directory, to) : -1;
}

Result<std::vector<std::string>> paths_of_open_files() {
  Result<std::vector<std::string>> names = list_directory("/dev/fd");
  if (!names) return names;
  std::vector<std::string> paths;
  for (const std::string& name : *names) {
    int descriptor = -1;
    (void)std::from_chars(name.data(), name.data() + name.size(), descriptor);
    const DescriptorPath path(descriptor);
    if (path.text[0] != '\0') paths.emplace_back(path.text);
  }
  return paths;
}

}  // namespace safetensors::os
