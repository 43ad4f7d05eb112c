// Classifies file systems by their flags and names.
#include "os/file_system.h"

#include "os/path.h"

#include <sys/mount.h>
#include <sys/param.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "os/system_error.h"

namespace safetensors::os {
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

bool on_local_device(int descriptor) noexcept {
  struct statfs status;
  return ::fstatfs(descriptor, &status) == 0 && std::string_view(status.f_fstypename) != "tmpfs" &&
         classify(status) == FileSystem::local;
}

std::string name_key(std::string_view name) {
  std::string key(name);
  for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return key;
}

}  // namespace safetensors::os
