// Resolves an output path: through symlinks, or to the symlink itself where that is to be replaced.
#pragma once

#include <safetensors/error.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "os/descriptor.h"

namespace safetensors::io {

// Symlinks of the last component: a write replaces the file that they lead to, or the link at the path.
enum class Links : bool { follow, replace };

// A name in a directory. Nothing or a regular file was there; with Links::replace, a symlink may have been.
struct Target {
  os::Descriptor directory;
  bool directory_readable = true;  // if not, the directory cannot be synced through its descriptor
  std::string name;
  Links links = Links::follow;
  std::optional<struct stat> old;  // the regular file that the path led to, also through a link that is replaced
};

// With Links::follow a dangling link leads to the file that it names. Errors: invalid_argument (a zero byte in the
// path), open_failed, not_regular_file. Links::replace refuses links to devices, FIFOs and sockets,
// and those into /proc, such as /dev/stdout. It replaces all others, whether they lead anywhere or not.
[[nodiscard]] Result<Target> resolve_target(std::string_view path, Links links = Links::follow);

// Error not_regular_file, unless nothing, a regular file, or a link that may be replaced is there now.
[[nodiscard]] Status check_replaceable(const Target& target, std::string_view path);

}  // namespace safetensors::io
