// What kind of file system a file is on, and what kind of file it is.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace safetensors::os {

enum class FileSystem : std::uint8_t {
  local,   // pages can be mapped, and stay what they are
  remote,  // over a network or in a user's process: reading is safer and often faster than mapping
  kernel,  // /proc, /sys and their like: no file there is one of bytes at offsets
};

// By the magic number of fstatfs(); local if that is not known or the call fails.
[[nodiscard]] FileSystem file_system_of(int descriptor) noexcept;
[[nodiscard]] FileSystem classify_file_system(std::uint64_t magic) noexcept;

// "a FIFO", "a directory" and so on; nullptr for a regular file.
[[nodiscard]] const char* describe_irregular(mode_t mode) noexcept;

// Device and inode name a file, size and change time its contents.
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
