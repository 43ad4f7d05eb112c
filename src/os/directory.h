// Lists of names in directories. As in a shell, names that begin with a dot are hidden.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "os/descriptor.h"

namespace safetensors::os {

// Calls visit() for each name in a directory that is open for reading, in the order of the system, until it returns
// false. `.` and `..` are among the names. Returns 0 or errno. begun: set to true if the system begins to list the
// directory.
[[nodiscard]] int visit_names(Descriptor directory, const std::function<bool(std::string_view)>& visit, bool& begun);

enum class PathKind : std::uint8_t {
  nothing,    // the name does not exist
  directory,  // a directory, or a symlink to one
  other,      // any other file, a dangling symlink, or a path that the system does not let us examine
};

// Returns the kind of file at a path. Follows symlinks. The path must not contain a zero byte.
[[nodiscard]] PathKind kind_of(const std::string& path) noexcept;

// Returns the names in a directory, sorted by their bytes, without `.` and `..`. hidden: include names that begin with
// a dot. Errors, with path and os_error: open_failed, read_failed, out_of_memory. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<std::string>> list_directory(const std::string& path, bool hidden = false);

// The same for an open directory, with the names that begin with a dot. path: only for errors.
[[nodiscard]] Result<std::vector<std::string>> list_open_directory(int descriptor, const std::string& path);

// The same for a directory that is open for reading, and that no other reader shares. keep: chooses names. max_names:
// how many names are read, in the order of the system.
[[nodiscard]] Result<std::vector<std::string>> list_names(Descriptor directory, const std::string& path,
                                                          const std::function<bool(std::string_view)>& keep,
                                                          std::size_t max_names = ~std::size_t{0});

// Replaces `target` by the path that a symlink in a directory contains. Returns 0, or -1 and sets errno: EINVAL for a
// file that is not a symlink, ENOENT if there is no file. target is then unspecified. Throws std::bad_alloc.
[[nodiscard]] int read_link_at(int directory, const char* name, std::string& target);

// Returns a path to each file that this process has open, for status_of_path(). Errors: those of list_directory(), also
// if the system does not tell. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<std::string>> paths_of_open_files();

// Joins a directory's path and a name with one separator. An empty directory means the working directory.
[[nodiscard]] std::string join_path(std::string_view directory, std::string_view name);

// Returns the existing paths that match a pattern, sorted by their bytes. Wildcards match neither slashes nor a dot at
// the beginning of a name. A path that
// is not a directory, and a directory that the user may not list, have no matches. Errors: those of list_directory().
// Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<std::string>> expand_pattern(std::string_view pattern);

}  // namespace safetensors::os
