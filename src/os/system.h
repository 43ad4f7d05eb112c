// The system calls that change files or read past the page cache, behind one interface so that tests can make each of
// them fail.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "os/file_system.h"

namespace safetensors::os {

// What O_DIRECT asks for, in bytes; 0: it cannot be used on this file.
struct DirectAlignment {
  bool known = false;  // whether the system says
  std::uint32_t memory = 0;
  std::uint32_t offset = 0;
};

// Results and errno as the system's. Called from any thread; EINTR is the caller's to handle.
class System {
 public:
  System() = default;
  System(const System&) = delete;
  System& operator=(const System&) = delete;
  virtual ~System() = default;

  virtual int open_at(int directory, const char* name, int flags, mode_t mode) noexcept;
  virtual int close(int descriptor) noexcept;
  virtual ssize_t write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept;
  virtual ssize_t read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept;
  virtual ssize_t copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                             std::size_t size) noexcept;
  virtual int direct_alignment(int descriptor, DirectAlignment& alignment) noexcept;
  virtual int preallocate(int descriptor, std::uint64_t size) noexcept;
  // Starts writing out what is dirty, without waiting for it.
  virtual int start_writeback(int descriptor) noexcept;
  virtual int sync(int descriptor) noexcept;
  virtual int sync_file_system(int descriptor) noexcept;
  virtual int change_mode(int descriptor, mode_t mode) noexcept;
  virtual int change_owner(int descriptor, uid_t user, gid_t group) noexcept;
  virtual int rename_at(int directory, const char* from, const char* to) noexcept;
  virtual int unlink_at(int directory, const char* name) noexcept;
  // Gives the file of a descriptor a name; EEXIST where the name is taken, also by a dangling symlink.
  virtual int link_at(int descriptor, int directory, const char* name) noexcept;
  // Whether /proc leads to the file of a descriptor. link_at() needs that.
  virtual bool linkable(int descriptor) noexcept;
  // Another descriptor of the same open file, with FD_CLOEXEC.
  virtual int duplicate(int descriptor) noexcept;
  // The exclusive flock() of an open file. Never waits: EWOULDBLOCK where somebody else holds it.
  virtual int lock(int descriptor) noexcept;
  // See file_system.h.
  virtual FileSystem file_system(int descriptor) noexcept;
};

// "/proc/self/fd/N": a path to an open file, whether it has a name or not.
[[nodiscard]] std::string path_of_descriptor(int descriptor);

// The system itself; never destroyed.
[[nodiscard]] System& real_system() noexcept;

}  // namespace safetensors::os
