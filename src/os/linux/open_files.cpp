// Finds the open files of this process in /proc.
#include "os/directory.h"

namespace safetensors::os {

Result<std::vector<std::string>> paths_of_open_files() {
  constexpr const char* kOpenFiles = "/proc/self/fd";
  Result<std::vector<std::string>> paths = list_directory(kOpenFiles);
  if (!paths) return paths;
  for (std::string& path : *paths) path = join_path(kOpenFiles, path);
  return paths;
}

}  // namespace safetensors::os
