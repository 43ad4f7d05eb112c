// Resolves an output path through symlinks, or to the symlink itself if the caller wants to replace it.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "os/descriptor.h"
#include "os/file_status.h"

namespace safetensors::io {

// Treatment of a symlink in the last component. follow: a write replaces the file behind the link. replace: a write
// replaces the link. refuse: a write replaces nothing, neither a link nor a file.
enum class Links : std::uint8_t { follow, replace, refuse };

// A name in a directory. When the path was resolved, it was free or led to a regular file; with Links::replace, it
// could also be a symlink.
struct Target {
  os::Descriptor directory;
  bool directory_readable = true;  // false: the directory cannot be synced through its descriptor
  std::string name;
  Links links = Links::follow;
  std::optional<os::FileStatus> old;  // the regular file at the path, or behind a link that is replaced
};

// With Links::follow, a dangling link resolves to the name that it contains. Links::replace refuses links to devices,
// FIFOs and sockets, and links into /proc, such as /dev/stdout. It accepts all other links, dangling ones too. Errors:
// invalid_argument (a zero byte in the path), open_failed, not_regular_file, replace_failed with EEXIST (Links::refuse:
// the path is in use).
[[nodiscard]] Result<Target> resolve_target(std::string_view path, Links links = Links::follow);

// Returns not_regular_file unless the target now is free, a regular file, or a link that may be replaced. With
// Links::refuse, returns replace_failed unless the target is free.
[[nodiscard]] Status check_replaceable(const Target& target, std::string_view path);

}  // namespace safetensors::io
