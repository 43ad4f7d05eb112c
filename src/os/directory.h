// Names in directories. Names that begin with a dot are hidden, as a shell has it.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::os {

enum class PathKind : std::uint8_t {
  nothing,  // no such name
  directory,
  other,  // anything else, also what the system does not let us look at
};

// What a path leads to, links followed. The path must hold no zero byte.
[[nodiscard]] PathKind kind_of(const std::string& path) noexcept;

// Sorted by their bytes, without `.` and `..`. Errors: open_failed, read_failed, out_of_memory; path and os_error are
// set. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<std::string>> list_directory(const std::string& path, bool hidden = false);

// The directory's path and the name, with one separator between them; an empty directory is the working one.
[[nodiscard]] std::string join_path(std::string_view directory, std::string_view name);

// base::glob_match, but a hidden name's dot must be written.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view name) noexcept;

// The paths that exist and match, component by component, sorted by their bytes. A path that is no directory, and a
// directory that this user may not list, hold nothing. Errors: those of list_directory. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<std::string>> expand_pattern(std::string_view pattern);

}  // namespace safetensors::os
