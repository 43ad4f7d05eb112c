// The text of paths, which differs between systems.
#pragma once

#include <string>
#include <string_view>

namespace safetensors::os {

// Returns the path with `/` between its names, whatever separator the user wrote. Every path of a caller goes through
// this function before the library splits it. On Linux, returns the path unchanged, because `\` may be in a name.
[[nodiscard]] std::string generic_path(std::string_view path);

// Returns whether a path leads to the same file from every working directory: `/x`, or `C:/x` and `//server/share` on
// Windows.
[[nodiscard]] bool is_absolute(std::string_view path) noexcept;

// Returns the path without `/` at its end, unless it is the root of a file system.
[[nodiscard]] std::string without_end_slash(std::string path);

// Returns the name of a file as the file systems of this system compare names. On Windows and macOS, ASCII letters
// become lower case.
[[nodiscard]] std::string name_key(std::string_view name);

// Returns the path with the working directory in front, without following symlinks. Returns the path unchanged if the
// working directory is unknown, or if the result is too long. On Linux, an absolute path also stays unchanged.
[[nodiscard]] std::string absolute_path(const std::string& path);

}  // namespace safetensors::os
