// The kind, identity and permissions of a file, and the kind of its file system.
#pragma once

#include <cstdint>

#include "os/open.h"

namespace safetensors::os {

enum class FileKind : std::uint8_t {
  unknown,
  regular,
  directory,
  symlink,
  fifo,
  character_device,
  block_device,
  socket,
};

// Returns "a FIFO", "a directory" and so on, or nullptr for a regular file. The texts are static.
[[nodiscard]] const char* describe_irregular(FileKind kind) noexcept;

// Device and inode identify a file. Size and change time identify its contents.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;  // bytes
  std::int64_t changed_seconds = 0;
  std::int64_t changed_nanoseconds = 0;

  [[nodiscard]] bool same_file(const FileIdentity& other) const noexcept {
    return device == other.device && inode == other.inode;
  }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

struct FileStatus {
  // Bits of permissions.
  static constexpr std::uint32_t kOwner = 0700;
  static constexpr std::uint32_t kSticky = 01000;  // in a sticky directory, only the owner of a file removes it

  FileKind kind = FileKind::unknown;
  std::uint32_t permissions = 0;  // the bits 07777
  std::uint32_t user = 0;         // ID of the owner
  std::uint32_t group = 0;        // its ID
  std::uint64_t links = 0;        // names of the file
  std::uint64_t block_size = 0;   // bytes; the size that the file system prefers for reads and writes
  std::int64_t modified_seconds = 0;
  FileIdentity identity;

  [[nodiscard]] bool is_regular() const noexcept { return kind == FileKind::regular; }
  [[nodiscard]] bool is_directory() const noexcept { return kind == FileKind::directory; }
  [[nodiscard]] bool is_symlink() const noexcept { return kind == FileKind::symlink; }
};

// Whether a symlink in the last component stands for the file behind it, or for itself.
enum class Symlinks : std::uint8_t { follow, keep };

// Each of these makes one system call. They return 0, or -1 and set errno, as the functions of System do. After an
// error, status is unchanged.
[[nodiscard]] int status_of(int descriptor, FileStatus& status) noexcept;
[[nodiscard]] int status_at(int directory, const char* name, Symlinks symlinks, FileStatus& status) noexcept;
[[nodiscard]] inline int status_of_path(const char* path, Symlinks symlinks, FileStatus& status) noexcept {
  return status_at(kWorkingDirectory, path, symlinks, status);
}

enum class FileSystem : std::uint8_t {
  local,   // its files can be mapped, and the mapped bytes stay valid
  remote,  // over a network or served by a user's process (FUSE): reads are safer and often faster than maps
  kernel,  // /proc, /sys and similar: its files are not sequences of bytes at fixed offsets
};

// Uses the magic number of fstatfs(). Returns local if the number is unknown or the call fails.
[[nodiscard]] FileSystem file_system_of(int descriptor) noexcept;
[[nodiscard]] FileSystem classify_file_system(std::uint64_t magic) noexcept;

}  // namespace safetensors::os
