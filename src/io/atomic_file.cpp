// Writes a new file and puts it in place of the old one with one system call. So the path always leads to the whole old
// file or to the whole new file.
//
// If nothing is at the path, the new file has no name (O_TMPFILE) until linkat() names it: a killed writer leaves
// nothing. Otherwise it is a temporary file in the same directory, and rename() replaces the old file. A lock on the
// temporary tells clean_directory() that its writer is alive. Each step has a fallback, because file systems support
// different subsets.
#include "io/atomic_file.h"

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "io/temporary.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/process.h"
#include "os/regular_file.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

// Listing a directory takes less time than writing this many bytes. Before a smaller file is written, only the first
// 1,000 names are read: they take 0.3 ms, which is less than one fsync.
constexpr std::uint64_t kMinSizeToListAll = std::uint64_t{16} << 20;
constexpr std::size_t kMaxNamesForSmallFile = 1000;

// Returns whether an error would also make every other method of replacing the file fail.
bool is_final(int error_number) noexcept {
  return error_number == EIO || error_number == EROFS || os::out_of_space(error_number);
}

// Copies a whole file to a new one, and finishes the new one.
Status copy_all(int from, FileWriter& to, std::string_view path) {
  const Result<std::shared_ptr<const os::RegularFile>> source = os::RegularFile::from_fd(from);
  if (!source) return os::system_error(Errc::replace_failed, source.error().os_error, "cannot read the new file", path);
  Status status = to.copy_at(0, **source, 0, (*source)->identity().size);
  return status ? to.finish() : status;
}

}  // namespace

AtomicFile::AtomicFile(Target target, std::string_view path, const AtomicFileOptions& options)
    : path_(path),
      options_(options),
      target_(std::move(target)),
      file_(options.durability, path),
      process_(os::process_id()) {}

AtomicFile::~AtomicFile() {
  discard();
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(std::string_view path, std::uint64_t size,
                                                       const AtomicFileOptions& options,
                                                       std::string_view shown) noexcept {
  return base::guarded([&]() -> Result<std::unique_ptr<AtomicFile>> {
    if (shown.empty()) shown = path;
    if (size > os::kMaxOffset)
      return os::system_error(Errc::write_failed, EFBIG, "cannot write " + std::to_string(size) + " bytes", shown);
    Result<Target> target = resolve_target(path, options.links);
    if (!target) {
      Error error = std::move(target).error();
      error.path = shown;
      return error;
    }
    std::unique_ptr<AtomicFile> made(new AtomicFile(std::move(*target), shown, options));
    if (options.remove_orphans && made->target_.old)
      remove_orphans(os::DescriptorPath(made->target_.directory.get()).text,
                     size >= kMinSizeToListAll ? CleanOptions().max_names : kMaxNamesForSmallFile);
    const bool replaces = made->target_.old.has_value();
    if (options.like) made->target_.old = options.like;
    if (replaces || options.shared || !made->open_anonymous()) {
      if (Status status = made->open_named(); !status) return std::move(status).error();
    }
    // Must come before adopt_mode_and_owner(): the old file's mode may forbid a second open().
    if (size >= kMinDirectFile)
      made->file_.open_direct(made->target_.directory.get(), made->anonymous_ ? nullptr : made->temporary_.c_str());
    if (!options.shared) made->adopt_mode_and_owner();
    if (Status status = made->preallocate(size); !status) return std::move(status).error();
    return made;
  });
}

// The new file may replace a private one. So nobody else may open it before its owner and group are set.
std::uint32_t AtomicFile::first_mode() const noexcept {
  return target_.old ? (target_.old->permissions & os::FileStatus::kOwner) | 0600 : 0666;
}

// Returns false after any failure. The caller then opens a file with a name, which succeeds or reports the error.
bool AtomicFile::open_anonymous() noexcept {
  // The file is open for reading, too, because copy_to_named() may have to read it.
  os::Descriptor made(os::open_at(target_.directory.get(), ".",
                                  os::OpenFlags::read | os::OpenFlags::write | os::OpenFlags::unnamed, first_mode()));
  if (!made.valid() || os::file_system_of(made.get()) != os::FileSystem::local || !os::linkable(made.get()))
    return false;
  file_.adopt(made.release());
  anonymous_ = true;
  return true;
}

Status AtomicFile::open_named() {
  const int error_number = try_names(kTemporaryFile, [this](std::string& name) {
    const int made = os::open_at(target_.directory.get(), name.c_str(),
                                 os::OpenFlags::write | os::OpenFlags::create | os::OpenFlags::only_new, first_mode());
    if (made < 0) return errno;
    file_.adopt(made);
    temporary_ = std::move(name);
    if (keep_temporary(file_.descriptor())) return 0;
    discard();
    return EBUSY;
  });
  if (error_number == 0) return {};
  return os::system_error(Errc::open_failed, error_number, "cannot create a file in its directory", path_);
}

// Failures are not errors, because some file systems have no owners or modes.
void AtomicFile::adopt_mode_and_owner() noexcept {
  if (!target_.old) return;
  const os::FileStatus& old = *target_.old;
  os::FileStatus now;
  if (os::status_of(file_.descriptor(), now) != 0) return;
  bool same_user = old.user == now.user;
  bool same_group = old.group == now.group;
  if (!same_user || !same_group) {
    if (os::change_owner(file_.descriptor(), old.user, old.group) == 0)
      same_user = same_group = true;
    else if (!same_group)
      same_group = os::change_owner(file_.descriptor(), os::kKeepUser, old.group) == 0;
  }
  // Set-user-ID and set-group-ID bits stay only if the file keeps both user and group.
  std::uint32_t mode = old.permissions;
  if (!same_user || !same_group) mode &= 0777U;
  // A different group gets only the permissions of others.
  if (!same_group) mode = (mode & ~070U) | (mode & 07U) << 3;
  (void)os::change_mode(file_.descriptor(), mode);
}

// Only a lack of space is an error. File systems without preallocation are fine.
Status AtomicFile::preallocate(std::uint64_t size) {
  if (options_.durability == Durability::none || size == 0) return {};
  if (os::preallocate(file_.descriptor(), size) == 0 || !os::out_of_space(errno)) return {};
  return os::system_error(Errc::write_failed, errno, "cannot write " + std::to_string(size) + " bytes", path_);
}

Status AtomicFile::commit() noexcept {
  Status status = base::guarded([&]() -> Status {
    if (temporary_.empty() && !anonymous_)
      return base::make_error(Errc::writer_closed, "the file was already committed", path_);
    return finish();
  });
  if (status) status = replace();
  if (status) status = sync_directory();
  discard();
  return status;
}

Status AtomicFile::publish() {
  if (os::file_system_of(file_.descriptor()) == os::FileSystem::local || os::sync(file_.descriptor()) == 0) return {};
  return os::system_error(Errc::sync_failed, errno, "cannot make the new file visible to other machines", path_);
}

Status AtomicFile::finish() {
  if (file_.finished()) return {};
  if (options_.shared) adopt_mode_and_owner();
  return file_.finish();
}

Status AtomicFile::check() const noexcept {
  return base::guarded([&] { return check_replaceable(target_, path_); });
}

Status AtomicFile::replace() noexcept {
  return base::guarded([&]() -> Status {
    if (Status replaceable = check_replaceable(target_, path_); !replaceable) return replaceable;
    return anonymous_ || target_.links == Links::refuse ? link() : rename();
  });
}

// Gives the new file the name of the target. linkat() cannot replace a file. If another file has appeared at the path
// meanwhile and may be replaced, the new file gets a temporary name first and is then renamed.
Status AtomicFile::link() {
  const bool replaces = target_.links != Links::refuse;
  int error_number = link_as(target_.name);
  if (error_number == 0) {
    discard();
    return {};
  }
  if (error_number == EEXIST && replaces) {
    // Lock before the name exists: otherwise clean_directory() could take the file for that of a dead writer.
    (void)lock_temporary(file_.descriptor());
    error_number = try_names(kTemporaryFile, [this](std::string& name) {
      const int linked = link_as(name);
      if (linked == 0) temporary_ = std::move(name);
      return linked;
    });
    if (error_number == 0) return rename();
  }
  if (is_final(error_number) || (error_number == EEXIST && !replaces))
    return os::system_error(Errc::replace_failed, error_number, "cannot put the new file in place", path_);
  // If the new file has a name here, this is Links::refuse on a file system without links. The rename replaces no file,
  // because replace() has just seen that the path is free.
  return anonymous_ ? copy_to_named() : rename();
}

// Returns 0 or errno.
int AtomicFile::link_as(const std::string& name) noexcept {
  if (os::link_at(file_.descriptor(), target_.directory.get(), name.c_str()) != 0) return errno;
  anonymous_ = false;
  return 0;
}

// The fallback if a security policy forbids links or /proc is gone: copies the bytes into a file with a name.
Status AtomicFile::copy_to_named() {
  const os::Descriptor made(file_.release());
  anonymous_ = false;
  if (Status status = open_named(); !status) return status;
  adopt_mode_and_owner();
  Status status = copy_all(made.get(), file_, path_);
  return status ? replace() : status;
}

Status AtomicFile::rename() {
  if (os::rename_at(target_.directory.get(), temporary_.c_str(), target_.name.c_str()) == 0) {
    temporary_.clear();
    file_.close();
    return {};
  }
  const int error_number = errno;
  if (!rename_unsupported(error_number))
    return os::system_error(Errc::replace_failed, error_number, "cannot put the new file in place", path_);
  if (options_.in_place_if_no_rename) return write_in_place();
  return os::system_error(Errc::unsupported, error_number,
                          "this file system cannot rename the new file over the old one "
                          "(in_place_if_no_rename allows to write in place)",
                          path_);
}

bool AtomicFile::rename_unsupported(int error_number) const noexcept {
  if (error_number == ENOSYS || os::is_unsupported(error_number) || error_number == EXDEV) return true;
  if (error_number != EPERM) return false;
  // In a sticky directory EPERM means that the old file belongs to another user. In other directories it means that the
  // file system cannot rename.
  os::FileStatus directory;
  return os::status_of(target_.directory.get(), directory) == 0 &&
         (directory.permissions & os::FileStatus::kSticky) == 0;
}

// Copies the temporary over the old file. Not atomic: the caller requests it with in_place_if_no_rename. A mount of an
// object store lets nobody read a file that is still open for writing, and writes only files that are new or truncated.
Status AtomicFile::write_in_place() {
  file_.close();
  const int from =
      os::open_at(target_.directory.get(), temporary_.c_str(), os::OpenFlags::read | os::OpenFlags::no_follow, 0);
  if (from < 0) return os::system_error(Errc::replace_failed, errno, "cannot read the new file", path_);
  const os::Descriptor source(from);
  (void)lock_temporary(from);  // the lock of the writer ended with its descriptor
  const int to = open_in_place();
  if (to < 0) return os::system_error(Errc::replace_failed, errno, "cannot write in place", path_);
  FileWriter target(options_.durability, path_);
  target.adopt(to);
  Status written = copy_all(from, target, path_);
  if (!written && target_.links == Links::refuse) take_back();
  return written;
}

// Opens the target, empty. Returns a negative number and sets errno after a failure.
int AtomicFile::open_in_place() noexcept {
  constexpr os::OpenFlags kOverwrite = os::OpenFlags::write | os::OpenFlags::create | os::OpenFlags::truncate |
                                       os::OpenFlags::no_follow | os::OpenFlags::no_wait;
  const int opened = os::open_at(target_.directory.get(), target_.name.c_str(), kOverwrite, 0666);
  if (opened >= 0 || !rename_unsupported(errno)) return opened;
  // The file system cannot truncate either, so the old file makes way for a new one.
  const int error_number = errno;
  if (os::unlink_at(target_.directory.get(), target_.name.c_str()) == 0)
    return os::open_at(target_.directory.get(), target_.name.c_str(), kOverwrite | os::OpenFlags::only_new, 0666);
  errno = error_number;
  return -1;
}

Status AtomicFile::sync_directory() noexcept {
  return base::guarded([&]() -> Status {
    if (options_.durability != Durability::full) return {};
    int error_number = EBADF;
    if (target_.directory_readable) {
      if (os::sync(target_.directory.get()) == 0) return {};
      error_number = errno;
    }
    // The directory cannot be opened for reading or cannot be synced. Sync its whole file system instead.
    if (error_number == EBADF || error_number == EINVAL || error_number == ENOSYS || os::is_unsupported(error_number)) {
      const os::Descriptor file(os::open_at(target_.directory.get(), target_.name.c_str(),
                                            os::OpenFlags::read | os::OpenFlags::no_follow | os::OpenFlags::no_wait,
                                            0));
      if (file.valid() && os::sync_file_system(file.get()) == 0) return {};
      error_number = errno;
    }
    return os::system_error(Errc::replaced_not_durable, error_number,
                            "the new file is in place, but its directory was not synced", path_);
  });
}

void AtomicFile::take_back() noexcept {
  (void)os::unlink_at(target_.directory.get(), target_.name.c_str());
}

// Idempotent. Ignores errors.
void AtomicFile::discard() noexcept {
  file_.close();
  anonymous_ = false;
  if (temporary_.empty() || os::process_id() != process_) return;
  (void)os::unlink_at(target_.directory.get(), temporary_.c_str());
  temporary_.clear();
}

}  // namespace safetensors::io
