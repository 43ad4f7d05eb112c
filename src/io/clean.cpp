// Removes the temporary files of killed writers.
//
// It opens each directory relative to the descriptor of its parent, so a directory that is replaced by a symlink
// meanwhile cannot lead elsewhere. It removes a temporary only while it holds the temporary's lock. A writer that has
// just created the file finds the lock taken and creates another file.
#include "io/clean.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>

#include "base/error.h"
#include "io/new_folder.h"
#include "io/temporary.h"
#include "os/descriptor.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/path.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

// The files in the folder of a writer.
struct Contents {
  bool only_files = true;
  std::uint64_t size = 0;    // sum, in bytes
  std::int64_t changed = 0;  // seconds since 1970: time of the last change of any file
};

// Skips what it cannot examine.
Contents contents_of(int folder) {
  Contents contents;
  const Result<std::vector<std::string>> names = os::list_open_directory(folder, "");
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    os::FileStatus file;
    if (os::status_at(folder, name.c_str(), os::Symlinks::keep, file) != 0) continue;
    contents.only_files = contents.only_files && !file.is_directory();
    contents.size += file.identity.size;
    contents.changed = std::max({contents.changed, file.modified_seconds, file.identity.changed_seconds});
  }
  return contents;
}

class Cleaner {
 public:
  Cleaner(const CleanOptions& options, os::System& system, std::size_t max_names)
      : options_(options), system_(system), max_names_(max_names) {}

  // path: only for messages. Errors: open_failed, read_failed.
  Status visit(int parent, const char* name, os::OpenFlags flags, const std::string& path);
  std::vector<Temporary>& found() noexcept { return found_; }

 private:
  Status visit_names(int directory, const std::vector<std::string>& names, const std::string& path);
  void visit_below(int directory, const std::string& name, const std::string& path);
  void examine(int directory, const std::string& name, const os::FileStatus& seen, Temporary found);
  TemporaryState state_of(int file) const;
  void remove(int directory, const std::string& name, int file, const os::FileIdentity& identity, Temporary found);
  bool remove_folder(int directory, const std::string& name, int folder, const std::string& path);
  void fail(Temporary found, Error error);

  const CleanOptions& options_;
  os::System& system_;
  const std::size_t max_names_;  // per directory
  std::vector<Temporary> found_;
};

void Cleaner::fail(Temporary found, Error error) {
  found.state = TemporaryState::failed;
  error.path = found.path;
  found.error = std::move(error);
  found_.push_back(std::move(found));
}

Status Cleaner::visit(int parent, const char* name, os::OpenFlags flags, const std::string& path) {
  const int opened = system_.open_at(parent, name, flags, 0);
  if (opened < 0) return os::system_error(Errc::open_failed, errno, "cannot open", path);
  os::DirectoryStream directory(opened);
  if (!directory.valid()) {
    const int error_number = errno;
    (void)system_.close(opened);
    return os::system_error(Errc::open_failed, error_number, "cannot open", path);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < max_names_; ++i) {
    const char* const next = directory.next();
    if (next == nullptr && errno != 0)
      return os::system_error(Errc::read_failed, errno, "cannot read the directory", path);
    if (next == nullptr) break;
    const std::string_view found = next;
    if (found != "." && found != ".." &&
        (options_.recursive || is_temporary_name(found) || is_temporary_folder_name(found)))
      names.emplace_back(found);
  }
  std::sort(names.begin(), names.end());
  return visit_names(directory.descriptor(), names, path);
}

Status Cleaner::visit_names(int directory, const std::vector<std::string>& names, const std::string& path) {
  for (const std::string& name : names) {
    os::FileStatus seen;
    if (os::status_at(directory, name.c_str(), os::Symlinks::keep, seen) != 0) continue;  // removed meanwhile
    std::string below = os::join_path(path, name);
    if (seen.is_regular() ? is_temporary_name(name) : seen.is_directory() && is_temporary_folder_name(name))
      examine(directory, name, seen, {.path = std::move(below), .size = seen.identity.size});
    else if (seen.is_directory() && options_.recursive)
      visit_below(directory, name, below);
  }
  return {};
}

// Reports a directory that cannot be read, and lets the caller go on with the others.
void Cleaner::visit_below(int directory, const std::string& name, const std::string& path) {
  Status status = visit(directory, name.c_str(), os::kOpenDirectory | os::OpenFlags::no_follow, path);
  if (!status && status.error().os_error != ENOENT) fail({.path = path}, std::move(status).error());
}

void Cleaner::examine(int directory, const std::string& name, const os::FileStatus& seen, Temporary found) {
  // The lock needs an open file, for reading or for writing.
  os::Descriptor file(system_.open_at(directory, name.c_str(), os::OpenFlags::read | os::kDistrust, 0));
  if (!file.valid() && errno == EACCES && seen.is_regular())
    file = os::Descriptor(system_.open_at(directory, name.c_str(), os::OpenFlags::write | os::kDistrust, 0));
  os::FileStatus opened;
  if (!file.valid() || os::status_of(file.get(), opened) != 0) {
    if (errno == ENOENT) return;  // The writer has finished.
    return fail(std::move(found), os::system_error(Errc::open_failed, errno, "cannot open"));
  }
  if (!opened.identity.same_file(seen.identity)) return;
  if (opened.is_directory()) {
    const Contents contents = contents_of(file.get());
    found.size = contents.size;
    if (!contents.only_files)
      return fail(std::move(found), base::make_error(Errc::write_failed, "a folder in it was not made by a writer"));
  }
  found.state = state_of(file.get());
  if (found.state == TemporaryState::stale && !options_.dry_run)
    return remove(directory, name, file.get(), opened.identity, std::move(found));
  found_.push_back(std::move(found));
}

// The lock decides. Without locks the age decides, because a living writer changes its file from time to time.
TemporaryState Cleaner::state_of(int file) const {
  switch (lock_temporary(file, system_)) {
    case TemporaryLock::taken:
      return TemporaryState::stale;
    case TemporaryLock::held:
      return TemporaryState::in_use;
    case TemporaryLock::unknown:
      break;
  }
  os::FileStatus status;
  if (os::status_of(file, status) != 0) return TemporaryState::recent;
  std::int64_t changed = std::max(status.modified_seconds, status.identity.changed_seconds);
  if (status.is_directory()) changed = std::max(changed, contents_of(file).changed);
  // A time can lie in the future: time() lags behind by up to one tick, and a server has its own clock.
  const std::int64_t age = std::max(std::int64_t{std::time(nullptr)} - changed, std::int64_t{0});
  const std::int64_t least = options_.min_age.milliseconds();
  return age >= least / 1000 + (least % 1000 > 0 ? 1 : 0) ? TemporaryState::stale : TemporaryState::recent;
}

// The folder of a killed CheckpointWriter holds only files. Returns false and sets errno on failure.
bool Cleaner::remove_folder(int directory, const std::string& name, int folder, const std::string& path) {
  if (const int error_number = remove_files(folder, path, system_); error_number != 0) {
    errno = error_number;
    return false;
  }
  return system_.remove_directory(directory, name.c_str()) == 0;
}

// Runs while the lock is held, or after the age was checked.
void Cleaner::remove(int directory, const std::string& name, int file, const os::FileIdentity& identity,
                     Temporary found) {
  os::FileStatus now;
  if (os::status_at(directory, name.c_str(), os::Symlinks::keep, now) != 0 || !now.identity.same_file(identity))
    return;  // The writer has just put the file in place.
  const bool failed = now.is_directory() ? !remove_folder(directory, name, file, found.path)
                                         : system_.unlink_at(directory, name.c_str()) != 0;
  if (failed) {
    if (errno == ENOENT) return;
    return fail(std::move(found), os::system_error(Errc::write_failed, errno, "cannot remove"));
  }
  found.state = TemporaryState::removed;
  found_.push_back(std::move(found));
}

}  // namespace

Result<std::vector<Temporary>> clean_directory(std::string_view directory, const CleanOptions& options,
                                               os::System& system, std::size_t max_names) noexcept {
  return base::guarded([&]() -> Result<std::vector<Temporary>> {
    if (directory.find('\0') != std::string_view::npos)
      return base::make_error(Errc::invalid_argument, "path contains a zero byte", directory);
    const std::string path = os::generic_path(directory);
    Cleaner cleaner(options, system, max_names);
    if (Status status = cleaner.visit(os::kWorkingDirectory, path.c_str(), os::kOpenDirectory, path); !status)
      return std::move(status).error();
    return std::move(cleaner.found());
  });
}

void remove_orphans(const std::string& directory, os::System& system, std::size_t max_names) noexcept {
  (void)base::guarded([&]() -> Status {
    // Without locks, the age proves little: a slow writer may have finished one of its files long ago.
    const CleanOptions options{.min_age = std::chrono::seconds::max()};
    const auto cleaned = clean_directory(directory.empty() ? "." : directory, options, system, max_names);
    return cleaned ? Status() : Status(cleaned.error());
  });
}

}  // namespace safetensors::io
