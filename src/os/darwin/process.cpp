// Asks macOS about the process, its threads and its open files.
#include "os/process.h"

#include <unistd.h>

#include <charconv>
#include <limits>

#include "os/directory.h"
#include "os/system.h"

namespace safetensors::os {

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
