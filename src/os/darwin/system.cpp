// The calls that macOS has in a form of its own. Those that it lacks fail with EOPNOTSUPP.
//
// macOS bypasses the page cache by a call after open(). File systems are classified by their flags and names.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

#include "os/descriptor.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/process.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::os {

int open_at(int directory, const char* name, OpenFlags flags, std::uint32_t permissions) noexcept {
  if (has(flags, OpenFlags::unnamed)) return failed_with(EOPNOTSUPP);
  const int native = native_flags(flags) | (has(flags, OpenFlags::path_only) ? O_SEARCH : 0);
  Descriptor opened(::openat(directory, name, native, static_cast<mode_t>(permissions)));
  if (opened.valid() && has(flags, OpenFlags::direct) && ::fcntl(opened.get(), F_NOCACHE, 1) != 0) {
    opened.reset();
    errno = EINVAL;
  }
  return opened.release();
}

namespace {

// Whether the file system does not know a call. Other errors are about the device or the file.
bool lacks_call(int error_number) noexcept {
  return error_number == ENOTSUP || error_number == EOPNOTSUPP || error_number == EINVAL || error_number == ENOTTY ||
         error_number == ENOSYS;
}

}  // namespace

DescriptorPath::DescriptorPath(int descriptor) noexcept {
  static_assert(sizeof text >= MAXPATHLEN);
  if (::fcntl(descriptor, F_GETPATH, text) != 0) std::memcpy(text, "/dev/null", 10);  // nothing is below it
}

// macOS reads unaligned bytes through the page cache, and reports no error.
int direct_alignment(int, DirectAlignment& alignment) noexcept {
  alignment = {.known = true, .memory = 4096, .offset = 4096};
  return 0;
}

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

namespace {

constexpr std::string_view kKernel[] = {"autofs", "devfs", "fdesc"};
// File systems served by a user's process may have the flag of a local one.
constexpr std::string_view kServed[] = {"fusefs", "macfuse", "osxfuse", "virtiofs", "webdav"};

FileSystem classify(const struct statfs& status) noexcept {
  const std::string_view name = status.f_fstypename;
  if (std::find(std::begin(kKernel), std::end(kKernel), name) != std::end(kKernel)) return FileSystem::kernel;
  const bool served = std::find(std::begin(kServed), std::end(kServed), name) != std::end(kServed);
  return served || (status.f_flags & MNT_LOCAL) == 0 ? FileSystem::remote : FileSystem::local;
}

}  // namespace

FileSystem file_system_of(int descriptor) noexcept {
  struct statfs status;
  if (retry([&] { return ::fstatfs(descriptor, &status); }) != 0) return FileSystem::local;
  return classify(status);
}

unsigned allowed_processors() noexcept {
  const long count = ::sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<unsigned>(count) : std::numeric_limits<unsigned>::max();
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
