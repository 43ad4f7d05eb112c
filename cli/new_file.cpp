#include "new_file.h"

#include "console.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace safetensors::cli {
namespace {

Error failure(Errc code, const std::string& what, int number) {
  return {.code = code, .os_error = number, .path = {}, .message = what + ": " + system_text(number)};
}

Error exists() {
  return {.code = Errc::invalid_argument, .path = {}, .message = "exists; --force replaces it"};
}

// What a signal removes before it ends the process: empty, or the temporary file's name.
char doomed[PATH_MAX];

extern "C" void remove_and_end(int signal_number) {
  if (doomed[0] != '\0') ::unlink(doomed);
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void remove_on_signal(const std::string& path) {
  if (path.size() >= sizeof doomed) return;
  std::memcpy(doomed, path.c_str(), path.size() + 1);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(number, remove_and_end) == SIG_IGN) std::signal(number, SIG_IGN);
  }
}

// The path behind symlinks, or path itself where there is nothing yet.
std::string resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result(real);
  std::free(real);
  return result;
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
  std::string target = replace ? resolved(path) : path;
  std::string temporary = target + ".XXXXXX";
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return failure(Errc::open_failed, "cannot create a file beside it", errno);
  remove_on_signal(temporary);
  struct stat old = {};
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const bool had_mode = ::stat(target.c_str(), &old) == 0;
  // A file system without modes has none to set.
  static_cast<void>(::fchmod(descriptor, had_mode ? old.st_mode & 07777u : 0666u & ~mask));
  return NewFile(std::move(target), std::move(temporary), descriptor, replace);
}

NewFile::NewFile(std::string target, std::string temporary, int descriptor, bool replace)
    : target_(std::move(target)), temporary_(std::move(temporary)), descriptor_(descriptor), replace_(replace) {}

NewFile::NewFile(NewFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      replace_(other.replace_) {}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (!temporary_.empty()) doomed[0] = '\0';
}

Status NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure(Errc::write_failed, "cannot write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status NewFile::commit() {
  if (::fsync(descriptor_) != 0) return failure(Errc::sync_failed, "cannot make it durable", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) return failure(Errc::write_failed, "cannot write", errno);
  if (!replace_) {
    // A link fails when something has appeared at the path meanwhile.
    if (::link(temporary_.c_str(), target_.c_str()) == 0) return {};
    if (errno == EEXIST) return exists();
    // This file system has no links: look once more instead.
    if (Status status = check(target_, false); !status) return status;
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return failure(Errc::replace_failed, "cannot put it in place", errno);
  }
  temporary_.clear();
  doomed[0] = '\0';
  return {};
}

}  // namespace safetensors::cli
