// Where a path that is to be written leads.
#pragma once

#include <safetensors/error.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "io/descriptor.h"

namespace safetensors::io {

// A name in a directory, all symbolic links followed; nothing or a regular file was there.
struct Target {
  Descriptor directory;
  bool directory_readable = true;  // if not, the directory cannot be synced through its descriptor
  std::string name;
  std::optional<struct stat> old;
};

// A dangling link leads to what it names. Errors: invalid_argument (a zero byte in the path), open_failed,
// not_regular_file.
[[nodiscard]] Result<Target> resolve_target(std::string_view path);

// Error not_regular_file, unless nothing or a regular file is there now.
[[nodiscard]] Status check_replaceable(const Target& target, std::string_view path);

}  // namespace safetensors::io
