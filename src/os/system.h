// The system calls that change files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "os/file_status.h"
#include "os/open.h"

namespace safetensors::os {

// The largest offset in a file, in bytes.
inline constexpr auto kMaxOffset = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
// For change_owner(): the file keeps its owner.
inline constexpr std::uint32_t kKeepUser = ~std::uint32_t{0};

// The alignment that O_DIRECT requires, in bytes. 0: the file does not support O_DIRECT, or is in memory.
struct DirectAlignment {
  bool known = false;        // false: the system does not tell
  std::uint32_t memory = 0;  // of the buffer's address
  std::uint32_t offset = 0;  // of offsets and sizes in the file
};

// Results and errno of the following functions are those of the system call. Thread-safe. The caller must handle EINTR.
std::ptrdiff_t write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept;
std::ptrdiff_t copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                          std::size_t size) noexcept;
int direct_alignment(int descriptor, DirectAlignment& alignment) noexcept;
int preallocate(int descriptor, std::uint64_t size) noexcept;
// Starts to write dirty pages to the device and does not wait for the end.
int start_writeback(int descriptor) noexcept;
int sync(int descriptor) noexcept;
int sync_file_system(int descriptor) noexcept;
int change_mode(int descriptor, std::uint32_t permissions) noexcept;
// user: its ID, or kKeepUser.
int change_owner(int descriptor, std::uint32_t user, std::uint32_t group) noexcept;
int rename_at(int directory, const char* from, const char* to) noexcept;
int unlink_at(int directory, const char* name) noexcept;
int make_directory(int directory, const char* name, std::uint32_t permissions) noexcept;
int remove_directory(int directory, const char* name) noexcept;
// Renames, and replaces nothing but an empty directory. EEXIST or ENOTEMPTY: the new name is in use.
int rename_new(int directory, const char* from, const char* to) noexcept;
// Gives the file of a descriptor a name. EEXIST: the name is in use, maybe by a dangling symlink.
int link_at(int descriptor, int directory, const char* name) noexcept;
// Returns whether /proc has a path to the file of a descriptor. link_at() needs it.
bool linkable(int descriptor) noexcept;
// Returns another descriptor of the same open file, with FD_CLOEXEC.
int duplicate(int descriptor) noexcept;
// Takes the exclusive flock() of an open file. Never waits. EWOULDBLOCK: another open file holds it.
int lock(int descriptor) noexcept;
// Releases it, also if a forked child has the same open file.
int unlock(int descriptor) noexcept;

// A path to an open file: on Linux "/proc/self/fd/N", also if the file has no name. Elsewhere it is the name of the
// file, which may lead to another file by now. The caller needs no heap, so functions that must not throw can use it.
struct DescriptorPath {
  explicit DescriptorPath(int descriptor) noexcept;
  char text[4096];
};

}  // namespace safetensors::os
