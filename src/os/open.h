// The ways to open files and directories, without the names of one system.
#pragma once

#include <cstddef>
#include <cstdint>

namespace safetensors::os {

// The maximum number of bytes per read or write. macOS refuses more than INT_MAX, and Linux transfers no more.
inline constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

// Combine them with |. Every descriptor is closed in a new program (exec), whatever the flags are.
enum class OpenFlags : std::uint32_t {
  none = 0,
  read = 1U << 0,
  write = 1U << 1,
  create = 1U << 2,        // makes the file if nothing is at the name
  only_new = 1U << 3,      // with create: EEXIST if something is at the name
  truncate = 1U << 4,      // removes the bytes of an old file
  unnamed = 1U << 5,       // the name is a directory; makes a file without a name in it
  directory = 1U << 6,     // ENOTDIR unless the name leads to a directory
  path_only = 1U << 7,     // neither reads nor writes: the descriptor is only for names relative to it
  no_follow = 1U << 8,     // ELOOP if the name is a symlink
  no_wait = 1U << 9,       // does not wait for the other end of a FIFO
  no_terminal = 1U << 10,  // a terminal does not become the controlling terminal
  direct = 1U << 11,       // reads and writes bypass the page cache; EINVAL if the file system cannot
};

[[nodiscard]] constexpr OpenFlags operator|(OpenFlags a, OpenFlags b) noexcept {
  return static_cast<OpenFlags>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
// Returns `flags` without `removed`.
[[nodiscard]] constexpr OpenFlags without(OpenFlags flags, OpenFlags removed) noexcept {
  return static_cast<OpenFlags>(static_cast<std::uint32_t>(flags) & ~static_cast<std::uint32_t>(removed));
}
[[nodiscard]] constexpr bool has(OpenFlags flags, OpenFlags flag) noexcept {
  return (static_cast<std::uint32_t>(flags) & static_cast<std::uint32_t>(flag)) != 0;
}

// Opens a directory whose names are read.
inline constexpr OpenFlags kOpenDirectory = OpenFlags::read | OpenFlags::directory;
// Opens a directory that may be searched but not read. It is enough to create and remove files by their names.
inline constexpr OpenFlags kOpenPathOfDirectory = OpenFlags::path_only | OpenFlags::directory;
// Opens a name in a directory that other programs may have replaced by a symlink, a FIFO or a terminal.
inline constexpr OpenFlags kDistrust = OpenFlags::no_follow | OpenFlags::no_wait | OpenFlags::no_terminal;

// Stands for the working directory where a function takes the descriptor of a directory.
extern const int kWorkingDirectory;

// POSIX only: translates read and write, whose values in open() are numbers and not bits, and each flag that is one bit
// on all systems.
[[nodiscard]] int native_flags(OpenFlags flags) noexcept;

// Opens a name relative to a directory. permissions: of a new file, less the umask. Returns the descriptor, or -1 and
// sets errno. One system call. The caller must handle EINTR.
[[nodiscard]] int open_at(int directory, const char* name, OpenFlags flags, std::uint32_t permissions = 0) noexcept;

// Reads bytes at an offset, and moves no position that threads share. Returns the number of bytes, 0 at the end of the
// file, or -1 and sets errno. One system call. The caller must handle EINTR.
[[nodiscard]] std::ptrdiff_t read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept;

// Returns a new descriptor to read the file of a stranger's descriptor, or -1 and sets errno: EACCES if it is not open
// for reading. Reads through it do not move the position of the stranger. On Windows they do if the stranger has opened
// the file without sharing it.
[[nodiscard]] int duplicate_for_reading(int descriptor) noexcept;

}  // namespace safetensors::os
