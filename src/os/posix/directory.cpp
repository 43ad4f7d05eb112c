// Reads directories with readdir(), and symlinks with readlinkat().
#include "os/directory.h"

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <memory>

namespace safetensors::os {

int visit_names(Descriptor directory, const std::function<bool(std::string_view)>& visit, bool& begun) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(directory.get()), ::closedir);
  if (!stream) return errno;
  (void)directory.release();
  begun = true;
  for (;;) {
    errno = 0;  // readdir() returns null at the end and on errors. Only errno tells them apart.
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) return errno;
    if (!visit(entry->d_name)) return 0;
  }
}

int read_link_at(int directory, const char* name, std::string& target) {
  target.resize(PATH_MAX);
  const ssize_t length = ::readlinkat(directory, name, target.data(), target.size());
  if (length < 0) return -1;
  target.resize(static_cast<std::size_t>(length));
  return 0;
}

}  // namespace safetensors::os
