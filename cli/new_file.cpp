// A new file is created without a name and linked to its path. A link cannot replace a file, so a file that replaces
// another one is a temporary that is renamed over it.
#include "new_file.h"

#include "console.h"
#include "formatted.h"
#include "interrupt.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

namespace safetensors::cli {
namespace {

constexpr int kMaxNames = 100;

Error failure(Errc code, const std::string& what, int error_number) {
  return {.code = code, .os_error = error_number, .path = {}, .message = what + ": " + system_text(error_number)};
}

Error exists() {
  return {.code = Errc::invalid_argument, .path = {}, .message = "exists; --force replaces it"};
}

// Resolves symlinks. Returns path itself if there is no file yet.
std::string resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result(real);
  std::free(real);
  return result;
}

// The directory of path with a slash at the end. Empty for the working directory.
std::string directory_of(const std::string& path) {
  return path.substr(0, path.rfind('/') + 1);
}

// A name like that of the library's temporaries, so that clean_directory() finds the file.
std::string temporary_beside(const std::string& target) {
  std::random_device random;
  const auto digits = static_cast<std::uint64_t>(random()) << 32 | random();
  return formatted("{}.safetensors-{:016x}.tmp", directory_of(target), digits);
}

std::string path_of_descriptor(int descriptor) {
  return formatted("/proc/self/fd/{}", descriptor);
}

// Opens a file without a name that can be linked to a name later. Returns -1 if that is not possible.
int open_unnamed(const std::string& target) {
  const std::string directory = directory_of(target) + ".";
  const int made = ::open(directory.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (made < 0 || ::access(path_of_descriptor(made).c_str(), F_OK) == 0) return made;
  ::close(made);
  return -1;
}

}  // namespace

Status NewFile::check(const std::string& path, bool replace) {
  struct stat there = {};
  if (::lstat(path.c_str(), &there) != 0) {
    return errno == ENOENT ? Status() : Status(failure(Errc::open_failed, "cannot write", errno));
  }
  if (!replace) return exists();
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return Error{.code = Errc::not_regular_file, .path = {}, .message = "not a regular file: cannot be replaced"};
  }
  return {};
}

Result<NewFile> NewFile::create(const std::string& path, bool replace) {
  if (Status status = check(path, replace); !status) return status.error();
  NewFile file(replace ? resolved(path) : path, replace);
  struct stat old = {};
  const bool replaces = ::stat(file.target_.c_str(), &old) == 0;
  if (!replaces) file.descriptor_ = open_unnamed(file.target_);
  if (file.descriptor_ < 0) {
    // The mode 0600 at first: the file that is replaced may be private.
    if (Status status = file.open_named(replaces ? 0600 : 0666); !status) return status.error();
  }
  // A file system without modes fails here. That is no error.
  if (replaces) static_cast<void>(::fchmod(file.descriptor_, old.st_mode & 07777u));
  return file;
}

Status NewFile::open_named(mode_t mode) {
  int error_number = EEXIST;
  for (int i = 0; i < kMaxNames && error_number == EEXIST; ++i) {
    temporary_ = temporary_beside(target_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    error_number = descriptor_ < 0 ? errno : 0;
  }
  // The lock shows clean_directory() that the writer is running. Without locks it uses the age of the file.
  if (error_number == 0) return static_cast<void>(::flock(descriptor_, LOCK_EX | LOCK_NB)), Status();
  temporary_.clear();
  return failure(Errc::open_failed, "cannot create a file beside it", error_number);
}

NewFile::NewFile(NewFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      replace_(other.replace_) {}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (Interrupt::caught()) return Interrupt::error();
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure(Errc::write_failed, "cannot write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status NewFile::commit() {
  if (::fsync(descriptor_) != 0) return failure(Errc::sync_failed, "cannot make it durable", errno);
  if (Interrupt::caught()) return Interrupt::error();
  if (temporary_.empty() || !replace_) {
    // The link fails if a file has appeared at the path meanwhile.
    const int error_number = link_as(target_);
    if (error_number == 0) return {};
    if (error_number == EEXIST && !replace_) return exists();
    // A file needs a name to be renamed. A file that has one is on a file system without links: check the path once
    // more.
    Status status = temporary_.empty() ? name_it(error_number) : check(target_, false);
    if (!status) return status;
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return failure(Errc::replace_failed, "cannot put it in place", errno);
  }
  temporary_.clear();
  return {};
}

// Returns 0 or errno.
int NewFile::link_as(const std::string& name) const {
  const bool unnamed = temporary_.empty();
  const std::string from = unnamed ? path_of_descriptor(descriptor_) : temporary_;
  return ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name.c_str(), unnamed ? AT_SYMLINK_FOLLOW : 0) == 0 ? 0 : errno;
}

// Links the unnamed file to a temporary name. error_number: why it could not be linked to its path.
Status NewFile::name_it(int error_number) {
  std::string name = temporary_beside(target_);
  static_cast<void>(::flock(descriptor_, LOCK_EX | LOCK_NB));
  if (error_number == EEXIST) error_number = link_as(name);
  if (error_number != 0) return failure(Errc::replace_failed, "cannot put it in place", error_number);
  temporary_ = std::move(name);
  return {};
}

}  // namespace safetensors::cli
