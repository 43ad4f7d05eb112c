// Makes paths absolute.
#include "os/open.h"

#include <unistd.h>

#include <climits>

namespace safetensors::os {

std::string absolute_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  char directory[PATH_MAX];
  if (::getcwd(directory, sizeof directory) == nullptr) return path;
  std::string whole = std::string(directory) + "/" + path;
  return whole.size() < PATH_MAX ? whole : path;
}

}  // namespace safetensors::os
