// Translates struct stat to FileStatus.
#include "os/file_status.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace safetensors::os {
namespace {

FileKind kind_of_mode(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return FileKind::regular;
    case S_IFDIR:
      return FileKind::directory;
    case S_IFLNK:
      return FileKind::symlink;
    case S_IFIFO:
      return FileKind::fifo;
    case S_IFCHR:
      return FileKind::character_device;
    case S_IFBLK:
      return FileKind::block_device;
    case S_IFSOCK:
      return FileKind::socket;
    default:
      return FileKind::unknown;
  }
}

// The times of a file have other names on macOS.
template <class Stat>
const auto& modified(const Stat& from) noexcept {
  if constexpr (requires { from.st_mtim; })
    return from.st_mtim;
  else
    return from.st_mtimespec;
}
template <class Stat>
const auto& changed(const Stat& from) noexcept {
  if constexpr (requires { from.st_ctim; })
    return from.st_ctim;
  else
    return from.st_ctimespec;
}

FileStatus translated(const struct stat& from) noexcept {
  return {.kind = kind_of_mode(from.st_mode),
          .permissions = static_cast<std::uint32_t>(from.st_mode & mode_t{07777}),
          .user = static_cast<std::uint32_t>(from.st_uid),
          .group = static_cast<std::uint32_t>(from.st_gid),
          .links = static_cast<std::uint64_t>(from.st_nlink),
          .block_size = static_cast<std::uint64_t>(from.st_blksize),
          .modified_seconds = modified(from).tv_sec,
          .identity = {.device = static_cast<std::uint64_t>(from.st_dev),
                       .inode = static_cast<std::uint64_t>(from.st_ino),
                       .size = from.st_size < 0 ? 0 : static_cast<std::uint64_t>(from.st_size),
                       .changed_seconds = changed(from).tv_sec,
                       .changed_nanoseconds = changed(from).tv_nsec}};
}

int store(int result, const struct stat& found, FileStatus& status) noexcept {
  if (result == 0) status = translated(found);
  return result;
}

}  // namespace

int status_of(int descriptor, FileStatus& status) noexcept {
  struct stat found;
  return store(::fstat(descriptor, &found), found, status);
}

int status_at(int directory, const char* name, Symlinks symlinks, FileStatus& status) noexcept {
  struct stat found;
  const int flags = symlinks == Symlinks::keep ? AT_SYMLINK_NOFOLLOW : 0;
  return store(::fstatat(directory, name, &found, flags), found, status);
}

int status_of_path(const char* path, Symlinks symlinks, FileStatus& status) noexcept {
  struct stat found;
  return store(symlinks == Symlinks::keep ? ::lstat(path, &found) : ::stat(path, &found), found, status);
}

}  // namespace safetensors::os
