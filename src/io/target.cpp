// Resolves an output path to an open directory and a name in it, so that a directory that is renamed meanwhile does no
// harm.
//
// rename() replaces a symlink and not the file behind it. So to follow symlinks, the code reads the links of the last
// component itself, one directory at a time. To replace a symlink, it takes the name as it is.
#include <cerrno>

#include "base/error.h"
#include "io/atomic_file.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/path.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

constexpr int kMaxLinks = 40;  // the limit of Linux

Error irregular_error(os::FileKind kind, std::string_view path) {
  Error error =
      base::make_error(Errc::not_regular_file,
                       std::string("cannot replace ") + os::describe_irregular(kind) + ", only a regular file", path);
  if (kind == os::FileKind::directory) error.os_error = EISDIR;
  return error;
}

// Sets the name to the last component of `given`, and opens the directory of the name. It is relative to
// target.directory, if that is open, and replaces it. A directory that may be searched but not read gets a descriptor
// for names only, which is enough to create files but not to sync. path: for errors.
Status open_directory(Target& target, const std::string& given, std::string_view path) {
  const std::size_t begin = given.rfind('/') + 1;
  const std::string directory = begin == 0 ? "." : given.substr(0, begin);
  target.name = given.substr(begin);
  if (target.name.empty() || target.name == "." || target.name == "..")
    return os::system_error(Errc::open_failed, EISDIR, "cannot create", path);
  const int from = target.directory.valid() ? target.directory.get() : os::kWorkingDirectory;
  os::Descriptor opened(os::retry([&] { return os::open_at(from, directory.c_str(), os::kOpenDirectory); }));
  target.directory_readable = opened.valid();
  if (!opened.valid() && errno == EACCES)
    opened = os::Descriptor(os::open_at(from, directory.c_str(), os::kOpenPathOfDirectory));
  if (!opened.valid()) return os::system_error(Errc::open_failed, errno, "cannot open its directory", path);
  target.directory = std::move(opened);
  return {};
}

// Returns whether a path in /proc still leads to the file without a name that stat() has seen. A file that another
// writer replaces at this moment has no name either. But then the path leads to the new file, so a second stat() tells
// the two cases apart.
bool still_nameless(std::string_view path, const os::FileStatus& seen) {
  os::FileStatus again;
  return os::status_of_path(std::string(path).c_str(), os::Symlinks::follow, again) == 0 && again.links == 0 &&
         again.identity.same_file(seen.identity);
}

// Opens the directory and follows the links of the last component. A dangling link leads to the file that the caller
// will create. into_kernel: set to true if the path, a link or its end is in a file system of the kernel. It is also
// set on errors.
Status follow(Target& target, std::string_view path, bool& into_kernel) {
  std::string rest = os::generic_path(path);
  for (int links = 0; links <= kMaxLinks; ++links) {
    if (Status status = open_directory(target, rest, path); !status) return status;
    into_kernel = into_kernel || os::file_system_of(target.directory.get()) == os::FileSystem::kernel;
    if (os::read_link_at(target.directory.get(), target.name.c_str(), rest) == 0) continue;
    if (errno == EINVAL || errno == ENOENT) return {};  // not a symlink, or no file
    return os::system_error(Errc::open_failed, errno, "cannot open", path);
  }
  return os::system_error(Errc::open_failed, ELOOP, "cannot open", path);
}

// found: the status of the target's name, without following a link.
Status check(const Target& target, const os::FileStatus& found, std::string_view path) {
  if (target.links == Links::refuse) return os::system_error(Errc::replace_failed, EEXIST, "cannot create", path);
  if (found.is_regular() || (target.links == Links::replace && found.is_symlink())) return {};
  return irregular_error(found.kind, path);
}

// Looks at the file behind a link that is replaced. Users who name /dev/stdout and similar paths, or a link to them,
// mean the open file and never the link.
Status look_behind_link(Target& target, std::string_view path) {
  bool into_kernel = false;
  Target end;
  (void)follow(end, path, into_kernel);
  if (into_kernel)
    return base::make_error(Errc::not_regular_file,
                            "cannot replace a symlink into /proc, /sys or their like, only a regular file", path);
  // A dangling link, and a link to a file that this process may not examine, are replaced like any other link.
  os::FileStatus behind;
  if (os::status_at(target.directory.get(), target.name.c_str(), os::Symlinks::follow, behind) != 0) return {};
  if (behind.is_regular())
    target.old = behind;
  else if (!behind.is_directory())
    return irregular_error(behind.kind, path);
  return {};
}

}  // namespace

Result<Target> resolve_target(std::string_view path, Links links) {
  if (path.find('\0') != std::string_view::npos)
    return base::make_error(Errc::invalid_argument, "path contains a zero byte", path);
  if (path.empty()) return os::system_error(Errc::open_failed, ENOENT, "cannot open", path);
  const bool follows = links == Links::follow;
  // stat() comes first, because the system refuses links that it would not follow (protected_symlinks).
  os::FileStatus seen;
  const bool exists = follows && os::status_of_path(std::string(path).c_str(), os::Symlinks::follow, seen) == 0;
  if (follows && !exists && errno != ENOENT) return os::system_error(Errc::open_failed, errno, "cannot open", path);
  if (exists && !seen.is_regular()) return irregular_error(seen.kind, path);

  bool into_kernel = false;
  Target target;
  target.links = links;
  Status status = follows ? follow(target, path, into_kernel) : open_directory(target, os::generic_path(path), path);
  if (!status) return std::move(status).error();
  os::FileStatus found;
  if (os::status_at(target.directory.get(), target.name.c_str(), os::Symlinks::keep, found) == 0) {
    status = check(target, found, path);
    if (status && found.is_symlink()) status = look_behind_link(target, path);
    if (!status) return std::move(status).error();
    if (found.is_regular()) target.old = found;
  } else if (errno != ENOENT) {
    return os::system_error(Errc::open_failed, errno, "cannot open", path);
  }
  // Only links in /proc/PID/fd lead to files without a name. Elsewhere another writer has just replaced the file: a
  // second stat() would not prove that, because the next file that is replaced can get the same inode number.
  if (exists && seen.links == 0 && into_kernel && still_nameless(path, seen))
    return base::make_error(Errc::open_failed, "cannot replace a file that has no name any more", path);
  return target;
}

Status check_replaceable(const Target& target, std::string_view path) {
  os::FileStatus found;
  if (os::status_at(target.directory.get(), target.name.c_str(), os::Symlinks::keep, found) != 0) return {};
  return check(target, found, path);
}

}  // namespace safetensors::io
