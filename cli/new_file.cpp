// A new file is made without a name and linked to its path; a file that replaces another is a temporary that is renamed
// over it, because a link cannot replace.
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

Error failure(Errc code, const std::string& what, int number) {
  return {.code = code, .os_error = number, .path = {}, .message = what + ": " + system_text(number)};
}

Error exists() {
  return {.code = Errc::invalid_argument, .path = {}, .message = "exists; --force replaces it"};
}

// The path behind symlinks, or path itself where there is nothing yet.
std::string resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result(real);
  std::free(real);
  return result;
}

// With the separator at the end; empty for the working directory.
std::string directory_of(const std::string& path) {
  return path.substr(0, path.rfind('/') + 1);
}

// As the library names its temporaries, so that clean_directory() knows it.
std::string temporary_beside(const std::string& target) {
  std::random_device random;
  const auto digits = static_cast<std::uint64_t>(random()) << 32 | random();
  return formatted("{}.safetensors-{:016x}.tmp", directory_of(target), digits);
}

std::string path_of_descriptor(int descriptor) {
  return formatted("/proc/self/fd/{}", descriptor);
}

// A file without a name that can be given one, or -1.
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
    // Nobody else may open what replaces a private file.
    if (Status status = file.open_named(replaces ? 0600 : 0666); !status) return status.error();
  }
  // A file system without modes has none to set.
  if (replaces) static_cast<void>(::fchmod(file.descriptor_, old.st_mode & 07777u));
  return file;
}

Status NewFile::open_named(mode_t mode) {
  int number = EEXIST;
  for (int i = 0; i < kMaxNames && number == EEXIST; ++i) {
    temporary_ = temporary_beside(target_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    number = descriptor_ < 0 ? errno : 0;
  }
  // The lock tells clean_directory() that a writer lives; without locks the file's age does.
  if (number == 0) return static_cast<void>(::flock(descriptor_, LOCK_EX | LOCK_NB)), Status();
  temporary_.clear();
  return failure(Errc::open_failed, "cannot create a file beside it", number);
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
    // A link fails when something has appeared at the path meanwhile.
    const int number = link_as(target_);
    if (number == 0) return {};
    if (number == EEXIST && !replace_) return exists();
    // To be renamed, the file must have a name. Or this file system has no links: look once more instead.
    Status status = temporary_.empty() ? name_it(number) : check(target_, false);
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

// number: why it could not be linked to its path.
Status NewFile::name_it(int number) {
  std::string name = temporary_beside(target_);
  static_cast<void>(::flock(descriptor_, LOCK_EX | LOCK_NB));
  if (number == EEXIST) number = link_as(name);
  if (number != 0) return failure(Errc::replace_failed, "cannot put it in place", number);
  temporary_ = std::move(name);
  return {};
}

}  // namespace safetensors::cli
