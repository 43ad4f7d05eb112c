// The calls that every POSIX system has: files, directories, paths and the process.
// change.cpp has those that change files.
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <limits>
#include <memory>

#include "os/descriptor.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/memory.h"
#include "os/open.h"
#include "os/path.h"
#include "os/process.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::os {
static_assert(sizeof(off_t) == sizeof kMaxOffset, "offsets have 64 bits: see _FILE_OFFSET_BITS");

const int kWorkingDirectory = AT_FDCWD;

int native_flags(OpenFlags flags) noexcept {
  constexpr struct {
    OpenFlags flag;
    int native;
  } kTable[] = {
      {OpenFlags::create, O_CREAT},        {OpenFlags::only_new, O_EXCL},      {OpenFlags::truncate, O_TRUNC},
      {OpenFlags::directory, O_DIRECTORY}, {OpenFlags::no_follow, O_NOFOLLOW}, {OpenFlags::no_wait, O_NONBLOCK},
      {OpenFlags::no_terminal, O_NOCTTY},
  };
  int native = O_CLOEXEC | O_RDONLY;
  if (has(flags, OpenFlags::write)) native |= has(flags, OpenFlags::read) ? O_RDWR : O_WRONLY;
  for (const auto& row : kTable) {
    if (has(flags, row.flag)) native |= row.native;
  }
  return native;
}

int close(int descriptor) noexcept {
  return ::close(descriptor);
}

std::ptrdiff_t read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  return ::pread(descriptor, bytes, std::min(size, kMaxTransfer), static_cast<off_t>(offset));
}

int duplicate(int descriptor) noexcept {
  return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

bool maps_disturb_writers() noexcept {
  return false;
}

// Reads of this library use no position.
int duplicate_for_reading(int descriptor) noexcept {
#ifdef O_PATH
  constexpr int kUnreadable = O_PATH;
#else
  constexpr int kUnreadable = O_EXEC;
#endif
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0) return -1;
  if ((flags & kUnreadable) != 0 || (flags & O_ACCMODE) == O_WRONLY) return failed_with(EACCES);
  return duplicate(descriptor);
}

int visit_names(Descriptor directory, const std::function<bool(std::string_view)>& visit, bool& begun) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(directory.get()), ::closedir);
  if (!stream) return errno;
  (void)directory.release();
  begun = true;
  for (;;) {
    errno = 0;  // readdir() returns null at the end and on errors. Only errno tells them apart.
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) return errno;
    if (!visit(entry->d_name)) return 0;
  }
}

int read_link_at(int directory, const char* name, std::string& target) {
  target.resize(PATH_MAX);
  const ssize_t length = ::readlinkat(directory, name, target.data(), target.size());
  if (length < 0) return -1;
  target.resize(static_cast<std::size_t>(length));
  return 0;
}

namespace {

FileKind kind_of_mode(mode_t mode) noexcept {
  constexpr struct {
    mode_t mode;
    FileKind kind;
  } kKinds[] = {
      {S_IFREG, FileKind::regular}, {S_IFDIR, FileKind::directory},        {S_IFLNK, FileKind::symlink},
      {S_IFIFO, FileKind::fifo},    {S_IFCHR, FileKind::character_device}, {S_IFBLK, FileKind::block_device},
      {S_IFSOCK, FileKind::socket},
  };
  for (const auto& row : kKinds) {
    if ((mode & S_IFMT) == row.mode) return row.kind;
  }
  return FileKind::unknown;
}

// The time has another name on macOS.
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
          .modified_seconds = from.st_mtime,
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

std::string generic_path(std::string_view path) {
  return std::string(path);
}

bool is_absolute(std::string_view path) noexcept {
  return path.starts_with('/');
}

std::string without_end_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string absolute_path(const std::string& path) {
  if (is_absolute(path)) return path;
  char directory[PATH_MAX];
  if (::getcwd(directory, sizeof directory) == nullptr) return path;
  std::string whole = std::string(directory) + "/" + path;
  return whole.size() < PATH_MAX ? whole : path;
}

std::size_t descriptor_limit() noexcept {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  const auto half = std::min<std::uint64_t>(limit.rlim_cur / 2, std::numeric_limits<std::size_t>::max());
  return std::max<std::size_t>(static_cast<std::size_t>(half), 1);
}

}  // namespace safetensors::os
