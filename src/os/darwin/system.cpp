// The calls that macOS has in a form of its own. Those that it lacks fail with EOPNOTSUPP.
//
// macOS bypasses the page cache by a call after open(). File systems are classified by their flags and names.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

#include "os/descriptor.h"
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

DescriptorPath::DescriptorPath(int descriptor) noexcept {
  static_assert(sizeof text >= MAXPATHLEN);
  if (::fcntl(descriptor, F_GETPATH, text) != 0) std::memcpy(text, "/dev/null", 10);  // nothing is below it
}

// macOS reads unaligned bytes through the page cache, and reports no error.
int direct_alignment(int, DirectAlignment& alignment) noexcept {
  alignment = {.known = true, .memory = 4096, .offset = 4096};
  return 0;
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

}  // namespace safetensors::os
