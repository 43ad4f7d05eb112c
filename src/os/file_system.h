// The kind of a file system, and the kind and identity of a file.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace safetensors::os {

enum class FileSystem : std::uint8_t {
  local,   // its files can be mapped, and the mapped bytes stay valid
  remote,  // over a network or served by a user's process (FUSE): reads are safer and often faster than maps
  kernel,  // /proc, /sys and similar: its files are not sequences of bytes at fixed offsets
};

// Uses the magic number of fstatfs(). Returns local if the number is unknown or the call fails.
[[nodiscard]] FileSystem file_system_of(int descriptor) noexcept;
[[nodiscard]] FileSystem classify_file_system(std::uint64_t magic) noexcept;

// Returns "a FIFO", "a directory" and so on, or nullptr for a regular file. The texts are static.
[[nodiscard]] const char* describe_irregular(mode_t mode) noexcept;

// Device and inode identify a file. Size and change time identify its contents.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t changed_seconds = 0;
  std::int64_t changed_nanoseconds = 0;

  [[nodiscard]] bool same_file(const FileIdentity& other) const noexcept {
    return device == other.device && inode == other.inode;
  }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

[[nodiscard]] FileIdentity identity_of(const struct stat& status) noexcept;

}  // namespace safetensors::os
