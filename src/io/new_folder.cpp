// Makes a folder that appears at once: it gets its files under a temporary name, and then one rename() shows it.
//
// The rename replaces nothing. If something appears at the path meanwhile, commit() fails, and the destructor removes
// the temporary folder.
#include "io/new_folder.h"

#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/clean.h"
#include "io/temporary.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/path.h"
#include "os/process.h"
#include "os/system_error.h"

namespace safetensors::io {

NewFolder::NewFolder(std::string_view path, Sync sync, os::System& system)
    : system_(system), path_(os::without_end_slash(os::generic_path(path))), sync_(sync), process_(os::process_id()) {
  const std::size_t slash = path_.rfind('/');
  parent_path_ = path_.substr(0, slash == std::string::npos ? 0 : slash + 1);
  name_ = path_.substr(parent_path_.size());
}

NewFolder::~NewFolder() {
  discard();
}

Result<std::unique_ptr<NewFolder>> NewFolder::create(std::string_view path, Sync sync, os::System& system) {
  if (path.find('\0') != std::string_view::npos)
    return base::make_error(Errc::invalid_argument, "path contains a zero byte", path);
  if (path.empty()) return os::system_error(Errc::open_failed, ENOENT, "cannot create", path);
  std::unique_ptr<NewFolder> made(new NewFolder(path, sync, system));
  if (Status status = made->make(); !status) return std::move(status).error();
  return made;
}

Status NewFolder::make() {
  const std::string parent = parent_path_.empty() ? "." : parent_path_;
  parent_ = os::Descriptor(
      os::retry([&] { return system_.open_at(os::kWorkingDirectory, parent.c_str(), os::kOpenDirectory, 0); }));
  if (!parent_.valid()) return os::system_error(Errc::open_failed, errno, "cannot open its directory", path_);
  os::FileStatus found;
  if (name_.empty() || os::status_at(parent_.get(), name_.c_str(), os::Symlinks::keep, found) == 0)
    return os::system_error(Errc::replace_failed, EEXIST, "cannot create a new folder, the path is in use", path_);
  if (errno != ENOENT) return os::system_error(Errc::open_failed, errno, "cannot create", path_);
  remove_orphans(parent_path_, system_);
  int error_number = EBUSY;  // reported if every attempt loses its folder to clean_directory()
  for (int i = 0; i < kMaxNameAttempts; ++i) {
    std::string name = temporary_folder_name();
    std::string temporary_path = parent_path_ + name;
    if (system_.make_directory(parent_.get(), name.c_str(), 0777) != 0) {
      error_number = errno;
      if (error_number != EEXIST) break;
      continue;
    }
    temporary_ = std::move(name);
    temporary_path_ = std::move(temporary_path);
    if (keeps_its_name()) return {};
    error_number = EBUSY;
    discard();
  }
  return os::system_error(Errc::open_failed, error_number, "cannot create a folder in its directory", path_);
}

// Locks the folder. Returns false if clean_directory() has locked or removed it.
bool NewFolder::keeps_its_name() noexcept {
  folder_ = os::Descriptor(os::retry([&] {
    return system_.open_at(parent_.get(), temporary_.c_str(), os::kOpenDirectory | os::OpenFlags::no_follow, 0);
  }));
  if (!folder_.valid()) return errno != ENOENT;  // if the folder cannot be opened, it has no lock
  if (lock_temporary(folder_.get(), system_) == TemporaryLock::held) return false;
  os::FileStatus made;
  return os::status_of(folder_.get(), made) != 0 || made.links != 0;
}

// Returns whether the temporary name leads to another folder than the one that this object made. If the folder cannot
// be examined, assumes that it is ours.
bool NewFolder::is_replaced() const noexcept {
  os::FileStatus named, open;
  return folder_.valid() && os::status_at(parent_.get(), temporary_.c_str(), os::Symlinks::keep, named) == 0 &&
         os::status_of(folder_.get(), open) == 0 && !named.identity.same_file(open.identity);
}

Status NewFolder::commit() {
  if (is_replaced())
    return base::make_error(Errc::replace_failed, "the temporary folder `" + temporary_ + "` was replaced by another",
                            path_);
  if (system_.rename_new(parent_.get(), temporary_.c_str(), name_.c_str()) != 0)
    return os::system_error(Errc::replace_failed, errno, "cannot put the new folder in place", path_);
  temporary_.clear();
  // A forked child has the same open folder. Without this, it would keep the lock of the new folder.
  if (folder_.valid()) (void)system_.unlock(folder_.get());
  folder_.reset();
  if (sync_ != Sync::full || system_.sync(parent_.get()) == 0) return {};
  return os::system_error(Errc::replaced_not_durable, errno,
                          "the new folder is in place, but the directory above it was not synced", path_);
}

// Idempotent. Ignores errors.
void NewFolder::discard() noexcept {
  if (temporary_.empty() || os::process_id() != process_) return;
  (void)base::guarded([&]() -> Status {
    if (folder_.valid()) (void)remove_files(folder_.get(), temporary_path_, system_);
    return {};
  });
  if (!is_replaced()) (void)system_.remove_directory(parent_.get(), temporary_.c_str());
  folder_.reset();
  temporary_.clear();
}

int remove_files(int directory, const std::string& path, os::System& system) {
  const Result<std::vector<std::string>> names = os::list_open_directory(directory, path);
  if (!names) return names.error().os_error;
  for (const std::string& name : *names) {
    if (system.unlink_at(directory, name.c_str()) != 0 && errno != ENOENT) return errno;
  }
  return 0;
}

}  // namespace safetensors::io
