// The kind of a file system.
#pragma once

#include <cstdint>

namespace safetensors::os {

enum class FileSystem : std::uint8_t {
  local,   // its files can be mapped, and the mapped bytes stay valid
  remote,  // over a network or served by a user's process (FUSE): reads are safer and often faster than maps
  kernel,  // /proc, /sys and similar: its files are not sequences of bytes at fixed offsets
};

// Uses the magic number of fstatfs(). Returns local if the number is unknown or the call fails.
[[nodiscard]] FileSystem file_system_of(int descriptor) noexcept;
[[nodiscard]] FileSystem classify_file_system(std::uint64_t magic) noexcept;

// Returns whether the file is on a local file system that is not in memory (tmpfs, ramfs). Returns false if the call of
// fstatfs() fails, also after a signal.
[[nodiscard]] bool on_local_device(int descriptor) noexcept;

}  // namespace safetensors::os
