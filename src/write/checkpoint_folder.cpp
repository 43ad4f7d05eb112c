// Puts the files of a model in place. The rename of the index is the commit: until then readers see the old model, from
// then on the new one.
//
// New files never replace files of the old model. They get the names of the next generation of the folder, such as
// `model-gen00002-00001-of-00008.safetensors`. So no name is used again. The steps are: put the files in place, put the
// index in place, remove the old files. For a model of one file without an index, one rename is enough. A lock on the
// folder lets one writer at a time do this.
#include "write/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "format/checkpoint/checkpoint_layout.h"
#include "format/checkpoint/index_text.h"
#include "format/checkpoint/model_names.h"
#include "io/temporary.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/path.h"
#include "os/process.h"
#include "os/system.h"
#include "os/system_error.h"
#include "write/file_head.h"

namespace safetensors::write {
namespace {

bool is_in_place(const Status& status) noexcept {
  return status || status.error().code == Errc::replaced_not_durable;
}

// Leaves the rights that the users of both files have. If the users differ, no user is left, and no set-ID bit. If the
// groups differ, the group of the first file stays, and gets only rights that others have.
void keep_common(os::FileStatus& common, const os::FileStatus& other) {
  std::uint32_t& rights = common.permissions;
  rights &= other.permissions | 0600U;
  if (common.user != other.user) {
    common.user = os::kKeepUser;
    rights &= 0777U;
  }
  // The members of the group of one file are others for the other file.
  if (common.group != other.group) rights = (rights & 0700U) | (rights & rights >> 3 & 07U) * 011U;
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string_view path, const CheckpointLayout& layout,
                                   const CheckpointWriteOptions& options)
    : path_(os::generic_path(path)),
      layout_(layout),
      options_(options),
      process_(os::process_id()),
      index_name_(layout.index_name()) {
  for (const CheckpointFile& file : layout.files()) layout_names_.push_back(file.name);
  names_ = layout_names_;
  indexed_ = !layout.index_text().empty();
}

CheckpointFolder::~CheckpointFolder() {
  index_.reset();  // its temporary file is in the folder
  discard_new_folder();
}

Result<std::unique_ptr<CheckpointFolder>> CheckpointFolder::open(std::string_view path, const CheckpointLayout& layout,
                                                                 const CheckpointWriteOptions& options) {
  if (options.shared && options.write.in_place_if_no_rename)
    return base::make_error(Errc::unsupported, "a shared writer cannot write in place: unset in_place_if_no_rename",
                            path);
  if (Status status = check_index_size(layout.index_text().size(), path); !status) return std::move(status).error();
  std::unique_ptr<CheckpointFolder> made(new CheckpointFolder(path, layout, options));
  if (Status status = made->open_folder(); !status) return std::move(status).error();
  if (!made->is_new()) made->find_old_files();
  if (Status status = made->create_index(); !status) return std::move(status).error();
  return made;
}

Status CheckpointFolder::open_folder() {
  if (path_.find('\0') != std::string::npos)
    return base::make_error(Errc::invalid_argument, "path contains a zero byte", path_);
  if (options_.new_folder || os::kind_of(path_) == os::PathKind::nothing) {
    if (Status status = make_new_folder(); !status) return status;
  }
  const std::string path = place();
  if (!folder_.valid())
    folder_ =
        os::Descriptor(os::retry([&] { return os::open_at(os::kWorkingDirectory, path.c_str(), os::kOpenDirectory); }));
  // The folder may be searched but not read. This descriptor is enough to remove files by their names.
  if (!folder_.valid() && errno == EACCES)
    folder_ = os::Descriptor(os::open_at(os::kWorkingDirectory, path.c_str(), os::kOpenPathOfDirectory));
  if (folder_.valid()) return {};
  return os::system_error(Errc::open_failed, errno, "cannot open the folder", path_);
}

// Returns the path of the folder without separators at its end, cut before its name. The first part is empty, or ends
// with a separator.
std::pair<std::string, std::string> CheckpointFolder::parent_and_name() const {
  const std::string path = os::without_end_slash(path_);
  const std::size_t name = path.rfind('/') + 1;
  return {path.substr(0, name), path.substr(name)};
}

std::string CheckpointFolder::place() const {
  return is_new() ? parent_and_name().first + temporary_ : path_;
}

// A new folder appears at once, with all of its files: it is a temporary folder that commit() renames. A killed process
// leaves the temporary folder, which clean_directory() finds. folder_ holds its lock, in the same way as the writer of
// a temporary file. Errors: open_failed; replace_failed with EEXIST (something is at the path).
Status CheckpointFolder::make_new_folder() {
  const auto [parent_path, name] = parent_and_name();
  if (path_.empty()) return os::system_error(Errc::open_failed, ENOENT, "cannot create", path_);
  const std::string parent = parent_path.empty() ? "." : parent_path;
  parent_ = os::Descriptor(
      os::retry([&] { return os::open_at(os::kWorkingDirectory, parent.c_str(), os::kOpenDirectory, 0); }));
  if (!parent_.valid()) return os::system_error(Errc::open_failed, errno, "cannot open its directory", path_);
  os::FileStatus found;
  if (name.empty() || os::status_at(parent_.get(), name.c_str(), os::Symlinks::keep, found) == 0)
    return os::system_error(Errc::replace_failed, EEXIST, "cannot create a new folder, the path is in use", path_);
  if (errno != ENOENT) return os::system_error(Errc::open_failed, errno, "cannot create", path_);
  io::remove_orphans(parent_path);
  const int error_number = io::try_names(io::kTemporaryFolder, [this](std::string& temporary) {
    if (os::make_directory(parent_.get(), temporary.c_str(), 0777) != 0) return errno;
    temporary_ = std::move(temporary);
    folder_ = os::Descriptor(os::retry([&] {
      return os::open_at(parent_.get(), temporary_.c_str(), os::kOpenDirectory | os::OpenFlags::no_follow, 0);
    }));
    // It is not kept if clean_directory() has locked or removed it.
    if (folder_.valid() ? io::keep_temporary(folder_.get()) : errno != ENOENT) return 0;
    discard_new_folder();
    return EBUSY;
  });
  if (error_number == 0) return {};
  return os::system_error(Errc::open_failed, error_number, "cannot create a folder in its directory", path_);
}

// Returns whether the temporary name leads to another folder than the one that this object made. If the folder cannot
// be examined, assumes that it is ours.
bool CheckpointFolder::is_replaced() const noexcept {
  os::FileStatus named, open;
  return folder_.valid() && os::status_at(parent_.get(), temporary_.c_str(), os::Symlinks::keep, named) == 0 &&
         os::status_of(folder_.get(), open) == 0 && !named.identity.same_file(open.identity);
}

// Renames the folder and syncs its parent. The files in it must be in place. Errors: replace_failed,
// replaced_not_durable (the only error after which the new folder is in place).
Status CheckpointFolder::commit_new_folder() {
  if (is_replaced())
    return base::make_error(Errc::replace_failed, "the temporary folder `" + temporary_ + "` was replaced by another",
                            path_);
  if (os::rename_new(parent_.get(), temporary_.c_str(), parent_and_name().second.c_str()) != 0)
    return os::system_error(Errc::replace_failed, errno, "cannot put the new folder in place", path_);
  temporary_.clear();
  // A forked child has the same open folder. Without this, it would keep the lock of the new folder.
  (void)os::unlock(folder_.get());
  if (options_.write.durability != Durability::full || os::sync(parent_.get()) == 0) return {};
  return os::system_error(Errc::replaced_not_durable, errno,
                          "the new folder is in place, but the directory above it was not synced", path_);
}

// Removes the temporary folder and the files in it. Idempotent. Ignores errors.
void CheckpointFolder::discard_new_folder() noexcept {
  if (!is_new() || os::process_id() != process_) return;
  (void)base::guarded([&]() -> Status {
    if (folder_.valid()) (void)io::remove_files(folder_.get(), place());
    return {};
  });
  if (!is_replaced()) (void)os::remove_directory(parent_.get(), temporary_.c_str());
  folder_.reset();
  temporary_.clear();
}

// Removes the shards of killed writers before the new files need their space: without this, each killed save would
// leave a whole model. A living writer has such shards only while it holds the lock, so the caller must hold it.
void CheckpointFolder::remove_leftovers() {
  const std::vector<std::string> names =
      without_open_files(os::DescriptorPath(folder_.get()).text, find_leftovers(named_, listed_));
  // The killed writer may not have synced its index. After a power cut, the old index would then name removed files.
  if (names.empty() || (options_.write.durability != Durability::none && os::sync(folder_.get()) != 0)) return;
  for (const std::string& name : names) {
    removed_generation_ = std::max(removed_generation_, format::generation_of(name));
    (void)os::unlink_at(folder_.get(), name.c_str());
  }
}

// Removes the files that killed writers left, and finds the old files. If the lock is not free, or the folder cannot be
// locked, the shards of killed writers stay until the commit.
void CheckpointFolder::find_old_files() {
  io::remove_orphans(path_);
  const Result<io::FolderLock> lock = io::FolderLock::take(folder_.get(), path_, 1);
  look_at_folder();
  if (options_.remove_old_files && lock && lock->held()) remove_leftovers();
  for (const std::string& name : listed_) {
    os::FileStatus found;
    if (!named_.is_old(name) || !is_file(name, found)) continue;
    if (!common_) common_ = found;
    keep_common(*common_, found);
    old_file_ = name;
  }
}

bool CheckpointFolder::is_file(const std::string& name, os::FileStatus& found) const noexcept {
  return os::status_at(folder_.get(), name.c_str(), os::Symlinks::follow, found) == 0 && found.is_regular();
}

// Returns 0 if the name exists, else errno.
int CheckpointFolder::look_for(const std::string& name) const noexcept {
  os::FileStatus found;
  return os::status_at(folder_.get(), name.c_str(), os::Symlinks::keep, found) == 0 ? 0 : errno;
}

// Lists the folder, and reads its indexes. If the folder cannot be listed, the index of the model still may be read.
void CheckpointFolder::look_at_folder() {
  Result<std::vector<std::string>> listed = os::list_open_directory(folder_.get(), path_);
  listed_.clear();
  if (listed)
    listed_ = *std::move(listed);
  else if (look_for(index_name_) == 0)
    listed_ = {index_name_};
  if (!index_) index_name_ = index_of(listed_, layout_);
  named_ = read_named_files(os::DescriptorPath(folder_.get()).text, listed_, index_name_, layout_);
}

// Returns whether the old index may name the file. An invalid index names no file, because readers refuse it.
bool CheckpointFolder::old_index_names(const std::string& name) const {
  const auto same = [key = os::name_key(name)](const std::string& shard) { return os::name_key(shard) == key; };
  return named_.unreadable || std::ranges::any_of(named_.of_model, same);
}

// Returns the highest generation among the shards in the folder, the shards that its indexes name, and the shards that
// this writer removed. Returns 0 if the model has neither a shard nor an index.
std::size_t CheckpointFolder::last_generation() const {
  std::vector<std::string> names = listed_;
  for (const auto* named : {&named_.of_model, &named_.of_others})
    names.insert(names.end(), named->begin(), named->end());
  std::size_t last = std::max(removed_generation_, std::size_t{named_.has_index ? 1U : 0U});
  for (const std::string& name : names) {
    if (name != named_.whole && named_.is_alike(name)) last = std::max(last, format::generation_of(name));
  }
  return last;
}

// The caller must hold the lock: then the names stay free until they are used. If another program takes one, replace()
// fails. The generation grows as long as the folder has a shard or an index, so a slow reader of an old index finds its
// files or none, and never those of a later model.
void CheckpointFolder::choose_names() {
  if (is_new()) return;
  // A single file replaces the old file with one rename, unless an old index names the old file. If it names files with
  // other stems, it must not go before them: without an index, these would be models.
  const bool others = std::ranges::any_of(
      named_.of_model, [&](const std::string& name) { return format::stem_of(name) != format::stem_of(layout_); });
  if (!indexed_ && !(index_ && (others || (look_for(names_[0]) != ENOENT && old_index_names(names_[0]))))) return;
  // A single file gets the names of the old shards: then a later writer finds those that stay if this one is killed.
  const std::vector<std::string> old(named_.of_model.begin(), named_.of_model.end());
  const std::vector<std::string> made =
      indexed_ ? layout_names_ : std::vector{format::ModelNames::of_index(index_name_, old).numbered(0, 1)};
  indexed_ = true;
  constexpr int kMaxAttempts = 1000;
  std::size_t generation = last_generation() + 1;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt, ++generation) {
    bool taken = false;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      names_[i] = format::in_generation(made[i], generation);
      if (look_for(names_[i]) != 0) continue;
      taken = true;
      taken_names_.push_back(names_[i]);
    }
    if (!taken) return;
  }
}

// Creates the file of the index early, because the working directory may have changed when commit() runs. Gives no
// size, so that the index goes through the page cache, without the 8 MiB of buffers for direct writes.
Status CheckpointFolder::create_index() {
  if (!indexed_ && (is_new() || look_for(index_name_) == ENOENT)) return {};
  auto index = create_named(index_name_, index_name_, 0, {});
  if (!index) return std::move(index).error();
  index_ = std::move(*index);
  return {};
}

Status CheckpointFolder::write_index() {
  std::string_view text = layout_.index_text();
  std::string renamed;
  if (text.empty()) {
    format::IndexText one_file;
    if (Status status = one_file.metadata(layout_.total_size(), {}); !status) return status;
    for (const TensorInfo& tensor : layout_.files()[0].header.tensors()) one_file.tensor(tensor.name, names_[0]);
    text = renamed = std::move(one_file).finish();
  } else if (names_ != layout_names_) {  // else no copy of a text that may be large
    text = renamed = format::rename_files(text, layout_names_, names_);
  }
  Status status = check_index_size(text.size(), path_);
  if (status) status = index_->file().write_at(0, bytes_of(text));
  if (status) status = index_->file().finish();
  return status ? index_->check() : status;
}

Result<std::unique_ptr<io::AtomicFile>> CheckpointFolder::create_named(const std::string& name,
                                                                       const std::string& shown, std::uint64_t size,
                                                                       const io::AtomicFileOptions& more) const {
  io::AtomicFileOptions options = to_atomic_file_options(options_.write);
  options.links = io::Links::replace;
  options.remove_orphans = false;  // open() has done it
  options.shared = more.shared;
  options.like = more.like;
  return io::AtomicFile::create(os::join_path(place(), name), size, options, os::join_path(path_, shown));
}

Result<std::unique_ptr<io::AtomicFile>> CheckpointFolder::create_file(std::size_t file, std::uint64_t size,
                                                                      bool shared) const {
  const std::string& name = layout_names_[file];
  // The temporary file is made as if it replaced `target`. If `name` is free, it is the target, because a killed writer
  // then leaves nothing. If something else than a file has this name, an old file is the target until commit() chooses
  // another name.
  os::FileStatus found;
  const bool other = indexed_ && !old_file_.empty() && look_for(name) == 0 && !is_file(name, found);
  auto made = create_named(other ? old_file_ : name, name, size, {.shared = shared, .like = common_});
  if (made || made.error().os_error != EMFILE) return made;
  Error error = std::move(made).error();
  error.message += "; all " + std::to_string(layout_.files().size()) +
                   " files are open at the same time: raise the limit of open files, or choose a larger size of files";
  return error;
}

Status CheckpointFolder::describe(Ticket& ticket) const {
  errno = ENAMETOOLONG;  // unless the next call sets it
  ticket.folder = os::absolute_path(path_);
  if (!os::is_absolute(ticket.folder))
    return os::system_error(Errc::open_failed, errno, "cannot find the working directory", path_);
  ticket.folder = os::without_end_slash(std::move(ticket.folder));
  ticket.durability = options_.write.durability;
  ticket.temporary_folder = temporary_;
  return {};
}

Status CheckpointFolder::commit(Files files) {
  std::optional<io::FolderLock> lock;
  if (!is_new()) {
    Result<io::FolderLock> taken = io::FolderLock::take(folder_.get(), path_);
    if (!taken) return std::move(taken).error();
    lock.emplace(*std::move(taken));
    look_at_folder();
  }
  choose_names();
  if (Status status = check_hiding(); !status) return status;
  if (!indexed_) index_.reset();
  if (index_) {
    if (Status status = write_index(); !status) return status;
  }
  for (std::size_t i = 0; indexed_ && i < files.size(); ++i) files[i]->rename_target(names_[i]);
  Status status = put_in_place(files);
  if (!status) return status;
  if (is_new()) return commit_new_folder();
  if (options_.remove_old_files) remove_old_files();
  return {};
}

// Checks all files before it places the first one, so every foreseeable error leaves all old files. If a file or the
// index cannot be placed, removes the files that were: their names were free. If only a sync fails, the files are in
// place. Then the index follows them, and the old files stay.
Status CheckpointFolder::put_in_place(Files files) {
  // Made before the first file is in place: then nothing can fail for lack of memory.
  const std::string hiding = index_ ? named_.whole : index_name_;
  for (const auto& file : files) {
    if (Status status = file->check(); !status) return status;
  }
  Status status;
  std::size_t placed = 0;
  while (status && placed < files.size()) {
    status = files[placed]->replace();
    if (status) ++placed;
  }
  Status synced = status ? files.front()->sync_directory() : Status();
  if (status && index_) status = index_->commit();
  if (!is_in_place(status)) {
    // An index that was written in place may lead to the new files even after an error.
    const bool take_back = placed < files.size() || !options_.write.in_place_if_no_rename;
    for (const auto& file : files.first(take_back ? placed : 0)) file->take_back();
    return status;
  }
  if (!is_new()) {
    if (Status shown = remove_hiding(hiding, *files.front()); !shown) status = std::move(shown);
  }
  if (!is_in_place(status)) return status;
  if (synced) synced = std::move(status);
  if (synced || !is_new()) return synced;
  return os::system_error(Errc::sync_failed, synced.error().os_error, "cannot sync the new folder", path_);
}

// Refuses to write shards beside a whole file that readers would take for the model, and that is of another index.
Status CheckpointFolder::check_hiding() const {
  if (!indexed_ || !named_.of_others.contains(named_.whole) || look_for(named_.whole) == ENOENT) return {};
  return base::make_error(Errc::invalid_argument,
                          "another index names `" + printable(named_.whole) +
                              "`, which readers would take for the new model: write into another folder",
                          path_);
}

// Removes the old file that leads readers of the folder to the old model: the index, or the whole file, which readers
// take before an index that does not name it. file: of the new model.
Status CheckpointFolder::remove_hiding(const std::string& name, io::AtomicFile& file) {
  if (os::unlink_at(folder_.get(), name.c_str()) != 0) {
    if (errno == ENOENT) return {};
    return os::system_error(Errc::replace_failed, errno,
                            "the new model is in place, but the old `" + printable(name) +
                                "` cannot be removed and still leads to the old model",
                            path_);
  }
  const Status synced = file.sync_directory();
  if (synced) return {};
  return os::system_error(Errc::replaced_not_durable, synced.error().os_error,
                          "the new model is in place, but the removal of `" + printable(name) + "` was not synced",
                          path_);
}

// Ignores errors: a file that stays is a stray file, which no index names. If the folder cannot be listed, removes the
// old files with known names.
void CheckpointFolder::remove_old_files() noexcept {
  (void)base::guarded([&]() -> Status {
    std::set<std::string> old(listed_.begin(), listed_.end());
    old.insert(named_.of_model.begin(), named_.of_model.end());
    old.insert(taken_names_.begin(), taken_names_.end());
    for (const std::string& name : names_) old.erase(name);
    for (const std::string& name : old) {
      if (named_.is_old(name)) (void)os::unlink_at(folder_.get(), name.c_str());
    }
    return {};
  });
}

}  // namespace safetensors::write
