// The calls for systems that lack copies by the system, early writeback, files without a name, and names that differ
// only in the case of their letters. Each answer says that the system lacks it.
#include <cerrno>

#include "os/path.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::os {

std::ptrdiff_t copy_range(int, std::uint64_t, int, std::uint64_t, std::size_t) noexcept {
  return failed_with(EOPNOTSUPP);
}

int start_writeback(int) noexcept {
  return failed_with(EOPNOTSUPP);
}

int sync_file_system(int) noexcept {
  return failed_with(EOPNOTSUPP);
}

int link_at(int, int, const char*) noexcept {
  return failed_with(EOPNOTSUPP);
}

bool linkable(int) noexcept {
  return false;
}

std::string name_key(std::string_view name) {
  std::string key(name);
  for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return key;
}

}  // namespace safetensors::os
