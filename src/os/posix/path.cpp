// On this system, `/` is the only separator, and a path that begins with it is absolute.
#include "os/path.h"

#include <unistd.h>
#include <climits>

namespace safetensors::os {

std::string generic_path(std::string_view path) {
  return std::string(path);
}

bool is_absolute(std::string_view path) noexcept {
  return path.starts_with('/');
}

std::string without_end_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string absolute_path(const std::string& path) {
  if (is_absolute(path)) return path;
  char directory[PATH_MAX];
  if (::getcwd(directory, sizeof directory) == nullptr) return path;
  std::string whole = std::string(directory) + "/" + path;
  return whole.size() < PATH_MAX ? whole : path;
}

}  // namespace safetensors::os
