#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/temporary.h"
#include "os/posix_file.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

constexpr std::uint64_t kMinDirectFile = std::uint64_t{1} << 20;  // smaller files gain nothing past the page cache
constexpr int kMaxNameAttempts = 100;
constexpr auto kLargestFile = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

// Whether another way of putting a file in place cannot help.
bool out_of_luck(int number) noexcept {
  return number == EIO || number == EROFS || os::out_of_space(number);
}

}  // namespace

AtomicFile::AtomicFile(Target target, std::string_view path, const AtomicFileOptions& options, os::System& system)
    : system_(system),
      path_(path),
      options_(options),
      target_(std::move(target)),
      file_(options.sync, path, system),
      process_(::getpid()) {}

AtomicFile::~AtomicFile() {
  discard();
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(std::string_view path, std::uint64_t size,
                                                       const AtomicFileOptions& options, os::System& system) noexcept {
  return base::guarded([&]() -> Result<std::unique_ptr<AtomicFile>> {
    if (size > kLargestFile)
      return os::system_error(Errc::write_failed, EFBIG, "cannot write " + std::to_string(size) + " bytes", path);
    Result<Target> target = resolve_target(path, options.links);
    if (!target) return std::move(target).error();
    std::unique_ptr<AtomicFile> made(new AtomicFile(std::move(*target), path, options, system));
    if (Status status = made->open_temporary(); !status) return std::move(status).error();
    // Before the mode is that of the old file, which may not let itself be opened again.
    if (size >= kMinDirectFile)
      made->file_.open_direct(made->target_.directory.get(), made->anonymous_ ? nullptr : made->temporary_.c_str());
    made->adopt_mode_and_owner();
    if (Status status = made->preallocate(size); !status) return std::move(status).error();
    return made;
  });
}

Status AtomicFile::open_temporary() {
  if (!target_.old && open_anonymous()) return {};
  return open_named();
}

// Whatever the reason for a refusal: a file with a name will do, or say what is wrong.
bool AtomicFile::open_anonymous() noexcept {
  // Readable, because copy_to_named() may have to read it.
  os::Descriptor made(system_.open_at(target_.directory.get(), ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0666));
  if (!made.valid() || system_.file_system(made.get()) != os::FileSystem::local || !system_.linkable(made.get()))
    return false;
  file_.adopt(made.release());
  anonymous_ = true;
  return true;
}

Status AtomicFile::open_named() {
  // Until owner and group are settled, nobody else may open what replaces a private file.
  const mode_t mode = target_.old ? (target_.old->st_mode & mode_t{0700}) | mode_t{0200} : mode_t{0666};
  int number = 0;
  for (int i = 0; i < kMaxNameAttempts; ++i) {
    std::string name = temporary_name();
    const int made =
        system_.open_at(target_.directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (made < 0) {
      number = errno;
      if (number != EEXIST && number != EINTR) break;
      continue;
    }
    file_.adopt(made);
    temporary_ = std::move(name);
    if (keeps_its_name()) return {};
    discard();
    number = EBUSY;
  }
  return os::system_error(Errc::open_failed, number, "cannot create a file in its directory", path_);
}

// Locks the temporary. False where somebody who cleans up has it already: between its making and this lock it looked
// like a dead writer's.
bool AtomicFile::keeps_its_name() noexcept {
  if (lock_temporary(file_.descriptor(), system_) == TemporaryLock::held) return false;
  struct stat made;
  return ::fstat(file_.descriptor(), &made) != 0 || made.st_nlink != 0;
}

// Refusals are not errors: some file systems know no owners or modes.
void AtomicFile::adopt_mode_and_owner() noexcept {
  if (!target_.old) return;
  const struct stat& old = *target_.old;
  struct stat now;
  if (::fstat(file_.descriptor(), &now) != 0) return;
  bool same_user = old.st_uid == now.st_uid;
  bool same_group = old.st_gid == now.st_gid;
  if (!same_user || !same_group) {
    if (system_.change_owner(file_.descriptor(), old.st_uid, old.st_gid) == 0)
      same_user = same_group = true;
    else if (!same_group)
      same_group = system_.change_owner(file_.descriptor(), static_cast<uid_t>(-1), old.st_gid) == 0;
  }
  mode_t mode = old.st_mode & mode_t{07777};
  if (!same_user || !same_group) mode &= mode_t{0777};
  // Another group gets no more than everybody.
  if (!same_group) mode = (mode & ~mode_t{070}) | (mode & mode_t{07}) << 3;
  (void)system_.change_mode(file_.descriptor(), mode);
}

Status AtomicFile::preallocate(std::uint64_t size) {
  if (options_.sync == Sync::none || size == 0) return {};
  if (system_.preallocate(file_.descriptor(), size) == 0 || !os::out_of_space(errno)) return {};
  return os::system_error(Errc::write_failed, errno, "cannot write " + std::to_string(size) + " bytes", path_);
}

Status AtomicFile::commit() noexcept {
  Status status = base::guarded([&]() -> Status {
    if (temporary_.empty() && !anonymous_)
      return base::make_error(Errc::writer_closed, "the file was already committed", path_);
    return file_.finished() ? Status() : file_.finish();
  });
  if (status) status = replace();
  if (status) status = sync_directory();
  discard();
  return status;
}

Status AtomicFile::check() const noexcept {
  return base::guarded([&] { return check_replaceable(target_, path_); });
}

Status AtomicFile::replace() noexcept {
  return base::guarded([&]() -> Status {
    if (Status replaceable = check_replaceable(target_, path_); !replaceable) return replaceable;
    return anonymous_ ? link() : rename();
  });
}

AtomicFile::Place AtomicFile::place() const {
  struct stat directory;
  if (::fstat(target_.directory.get(), &directory) != 0) directory = {};
  return {static_cast<std::uint64_t>(directory.st_dev), static_cast<std::uint64_t>(directory.st_ino), target_.name};
}

// linkat() cannot replace. Where something has appeared at the path meanwhile, the file gets a temporary name first.
Status AtomicFile::link() {
  int number = link_as(target_.name);
  if (number == 0) {
    file_.close();
    return {};
  }
  if (number == EEXIST) {
    // Whoever cleans up must not take the name for a dead writer's, not for a moment.
    (void)lock_temporary(file_.descriptor(), system_);
    for (int i = 0; i < kMaxNameAttempts && number == EEXIST; ++i) {
      std::string name = temporary_name();
      number = link_as(name);
      if (number == 0) temporary_ = std::move(name);
    }
    if (number == 0) return rename();
  }
  if (out_of_luck(number))
    return os::system_error(Errc::replace_failed, number, "cannot put the new file in place", path_);
  return copy_to_named();
}

// Returns 0 or errno.
int AtomicFile::link_as(const std::string& name) noexcept {
  if (system_.link_at(file_.descriptor(), target_.directory.get(), name.c_str()) != 0) return errno;
  anonymous_ = false;
  return 0;
}

// Where a policy forbids links, or /proc is gone: the bytes once more, into a file with a name.
Status AtomicFile::copy_to_named() {
  const os::Descriptor made(file_.release());
  anonymous_ = false;
  const Result<std::shared_ptr<const os::PosixFile>> source = os::PosixFile::from_fd(made.get());
  if (!source)
    return os::system_error(Errc::replace_failed, source.error().os_error, "cannot read the new file", path_);
  if (Status status = open_named(); !status) return status;
  if (Status status = file_.copy_at(0, **source, 0, (*source)->identity().size); !status) return status;
  if (Status status = file_.finish(); !status) return status;
  return rename();
}

Status AtomicFile::rename() {
  if (system_.rename_at(target_.directory.get(), temporary_.c_str(), target_.name.c_str()) == 0) {
    temporary_.clear();
    file_.close();
    return {};
  }
  const int number = errno;
  if (!rename_unsupported(number))
    return os::system_error(Errc::replace_failed, number, "cannot put the new file in place", path_);
  if (options_.in_place_if_no_rename) return write_in_place();
  return os::system_error(Errc::unsupported, number, "this file system cannot rename the new file over the old one",
                          path_);
}

bool AtomicFile::rename_unsupported(int number) const noexcept {
  if (number == ENOSYS || number == EOPNOTSUPP || number == EXDEV) return true;
  if (number != EPERM) return false;
  // In a sticky directory EPERM says that the old file belongs to somebody else.
  struct stat directory;
  return ::fstat(target_.directory.get(), &directory) == 0 && (directory.st_mode & S_ISVTX) == 0;
}

Status AtomicFile::write_in_place() {
  const int from = system_.open_at(target_.directory.get(), temporary_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
  if (from < 0) return os::system_error(Errc::replace_failed, errno, "cannot read the new file", path_);
  const os::Descriptor source(from);
  const int to = system_.open_at(target_.directory.get(), target_.name.c_str(),
                                 O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (to < 0) return os::system_error(Errc::replace_failed, errno, "cannot write in place", path_);
  FileWriter target(options_.sync, path_, system_);
  target.adopt(to);
  const Result<std::shared_ptr<const os::PosixFile>> file = os::PosixFile::from_fd(from);
  if (!file) return file.error();
  if (Status copied = target.copy_at(0, **file, 0, (*file)->identity().size); !copied) return copied;
  return target.finish();
}

Status AtomicFile::sync_directory() noexcept {
  return base::guarded([&]() -> Status {
    if (options_.sync != Sync::full) return {};
    int number = EBADF;
    if (target_.directory_readable) {
      if (system_.sync(target_.directory.get()) == 0) return {};
      number = errno;
    }
    // A directory that cannot be opened or synced on its own: its whole file system, then.
    if (number == EBADF || number == EINVAL || number == ENOSYS || number == EOPNOTSUPP) {
      const os::Descriptor file(system_.open_at(target_.directory.get(), target_.name.c_str(),
                                                O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0));
      if (file.valid() && system_.sync_file_system(file.get()) == 0) return {};
      number = errno;
    }
    return os::system_error(Errc::replaced_not_durable, number,
                            "the new file is in place, but its directory was not synced", path_);
  });
}

void AtomicFile::discard() noexcept {
  file_.close();
  anonymous_ = false;
  if (temporary_.empty() || ::getpid() != process_) return;
  (void)system_.unlink_at(target_.directory.get(), temporary_.c_str());
  temporary_.clear();
}

Status replace_all(std::span<const std::unique_ptr<AtomicFile>> files) noexcept {
  return base::guarded([&]() -> Status {
    // Everything that needs memory comes before the first rename: a call that fails leaves the old files.
    std::set<std::pair<std::uint64_t, std::uint64_t>> directories;
    std::vector<AtomicFile*> syncing;  // one file of each directory
    syncing.reserve(files.size());
    for (const auto& file : files) {
      if (Status status = file->check(); !status) return status;
      const AtomicFile::Place place = file->place();
      if (directories.emplace(place.device, place.directory).second) syncing.push_back(file.get());
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      Status status = files[i]->replace();
      if (status) continue;
      Error error = std::move(status).error();
      if (i != 0)
        error.message +=
            "; " + std::to_string(i) + " of " + std::to_string(files.size()) + " files were already replaced";
      return error;
    }
    for (AtomicFile* const file : syncing) {
      if (Status status = file->sync_directory(); !status) return status;
    }
    return {};
  });
}

}  // namespace safetensors::io
