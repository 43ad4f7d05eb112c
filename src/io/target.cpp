// Resolves an output path to an open directory and a name in it, so that a directory that is renamed meanwhile does no
// harm.
//
// rename() replaces a symlink and not the file behind it. So to follow symlinks, the code reads the links of the last
// component itself, one directory at a time. To replace a symlink, it takes the name as it is.
#include "io/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "base/error.h"
#include "os/file_system.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

constexpr int kMaxLinks = 40;  // the limit of Linux

Error irregular_error(mode_t mode, std::string_view path) {
  Error error =
      base::make_error(Errc::not_regular_file,
                       std::string("cannot replace ") + os::describe_irregular(mode) + ", only a regular file", path);
  if (S_ISDIR(mode)) error.os_error = EISDIR;
  return error;
}

Error in_use_error(std::string_view path) {
  return os::system_error(Errc::replace_failed, EEXIST, "cannot create", path);
}

// Splits off the last component: "a/b" into "a/" and "b", "b" into "." and "b".
void split(const std::string& path, std::string& directory, std::string& name) {
  const std::size_t slash = path.rfind('/');
  directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  name = slash == std::string::npos ? path : path.substr(slash + 1);
}

// Opens a directory relative to target.directory, if that is open, and replaces it. A directory that may be searched
// but not read gets an O_PATH descriptor, which is enough to create files but not to sync.
Status open_directory(Target& target, const std::string& directory, std::string_view path) {
  const int from = target.directory.valid() ? target.directory.get() : AT_FDCWD;
  os::Descriptor opened(
      os::retry([&] { return ::openat(from, directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  target.directory_readable = opened.valid();
  if (!opened.valid() && errno == EACCES)
    opened = os::Descriptor(::openat(from, directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened.valid()) return os::system_error(Errc::open_failed, errno, "cannot open its directory", path);
  target.directory = std::move(opened);
  return {};
}

// Returns whether a path in /proc still leads to the file without a name that stat() has seen. A file that another
// writer replaces at this moment has no name either. But then the path leads to the new file, so a second stat() tells
// the two cases apart.
bool still_nameless(std::string_view path, const struct stat& seen) {
  struct stat again;
  return ::stat(std::string(path).c_str(), &again) == 0 && again.st_nlink == 0 &&
         os::identity_of(again).same_file(os::identity_of(seen));
}

// Follows the links of the last component. A dangling link leads to the file that the caller will create.
// into_kernel: set to true if the path, a link or its end is in a file system of the kernel. It is also set on errors.
Result<Target> follow(std::string_view path, bool* into_kernel = nullptr) {
  Target target;
  std::string rest(path);
  std::string directory;
  for (int links = 0; links <= kMaxLinks; ++links) {
    split(rest, directory, target.name);
    if (target.name.empty() || target.name == "." || target.name == "..")
      return os::system_error(Errc::open_failed, EISDIR, "cannot create", path);
    if (Status status = open_directory(target, directory, path); !status) return std::move(status).error();
    if (into_kernel != nullptr && os::file_system_of(target.directory.get()) == os::FileSystem::kernel)
      *into_kernel = true;
    // readlinkat() fails with EINVAL for a file that is not a symlink, and with ENOENT if there is no file.
    rest.resize(PATH_MAX);
    const ssize_t length = ::readlinkat(target.directory.get(), target.name.c_str(), rest.data(), rest.size());
    if (length < 0 && (errno == EINVAL || errno == ENOENT)) return target;
    if (length < 0) return os::system_error(Errc::open_failed, errno, "cannot open", path);
    rest.resize(static_cast<std::size_t>(length));
  }
  return os::system_error(Errc::open_failed, ELOOP, "cannot open", path);
}

// Takes the name as it is, even if it is a symlink. Follows only the links in the path of the directory.
Result<Target> resolve_name(std::string_view path, Links links) {
  Target target;
  target.links = links;
  std::string directory;
  split(std::string(path), directory, target.name);
  if (target.name.empty() || target.name == "." || target.name == "..")
    return os::system_error(Errc::open_failed, EISDIR, "cannot create", path);
  if (Status status = open_directory(target, directory, path); !status) return std::move(status).error();
  struct stat found;
  const int directory_fd = target.directory.get();
  if (::fstatat(directory_fd, target.name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return target;
    return os::system_error(Errc::open_failed, errno, "cannot open", path);
  }
  if (links == Links::refuse) return in_use_error(path);
  if (!S_ISLNK(found.st_mode)) {
    if (!S_ISREG(found.st_mode)) return irregular_error(found.st_mode, path);
    target.old = found;
    return target;
  }
  // Users who name /dev/stdout and similar paths, or a link to them, mean the open file and never the link.
  bool into_kernel = false;
  (void)follow(path, &into_kernel);
  if (into_kernel)
    return base::make_error(Errc::not_regular_file,
                            "cannot replace a symlink into /proc, /sys or their like, only a regular file", path);
  // A dangling link, and a link to a file that this process may not examine, are replaced like any other link.
  struct stat behind;
  if (::fstatat(directory_fd, target.name.c_str(), &behind, 0) != 0) return target;
  if (S_ISREG(behind.st_mode))
    target.old = behind;
  else if (!S_ISDIR(behind.st_mode))
    return irregular_error(behind.st_mode, path);
  return target;
}

}  // namespace

Result<Target> resolve_target(std::string_view path, Links links) {
  if (path.find('\0') != std::string_view::npos)
    return base::make_error(Errc::invalid_argument, "path contains a zero byte", path);
  if (path.empty()) return os::system_error(Errc::open_failed, ENOENT, "cannot open", path);
  if (links != Links::follow) return resolve_name(path, links);
  // stat() comes first, because the system refuses links that it would not follow (protected_symlinks).
  struct stat seen;
  const bool exists = ::stat(std::string(path).c_str(), &seen) == 0;
  if (!exists && errno != ENOENT) return os::system_error(Errc::open_failed, errno, "cannot open", path);
  if (exists && !S_ISREG(seen.st_mode)) return irregular_error(seen.st_mode, path);

  bool into_kernel = false;
  Result<Target> target = follow(path, &into_kernel);
  if (!target) return target;
  struct stat found;
  if (::fstatat(target->directory.get(), target->name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISREG(found.st_mode)) return irregular_error(found.st_mode, path);
    target->old = found;
  } else if (errno != ENOENT) {
    return os::system_error(Errc::open_failed, errno, "cannot open", path);
  }
  // Only links in /proc/PID/fd lead to files without a name. Elsewhere another writer has just replaced the file: a
  // second stat() would not prove that, because the next file that is replaced can get the same inode number.
  if (exists && seen.st_nlink == 0 && into_kernel && still_nameless(path, seen))
    return base::make_error(Errc::open_failed, "cannot replace a file that has no name any more", path);
  return target;
}

Status check_replaceable(const Target& target, std::string_view path) {
  struct stat found;
  if (::fstatat(target.directory.get(), target.name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return {};
  if (target.links == Links::refuse) return in_use_error(path);
  if (target.links == Links::replace && S_ISLNK(found.st_mode)) return {};
  if (!S_ISREG(found.st_mode)) return irregular_error(found.st_mode, path);
  return {};
}

}  // namespace safetensors::io
