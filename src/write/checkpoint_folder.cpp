// Puts the files of a model in place in an order that keeps the old model readable as long as possible.
//
// The index comes after the files that it names, and old files go after the index that named them. So at each moment
// the folder has an index whose files are there. What this order cannot prevent: if a new file has the name of an old
// one, the old index leads to the new file for a moment. A new folder has no such moment, because one rename() shows
// it.
#include "write/checkpoint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "format/shard_index.h"
#include "os/directory.h"
#include "os/system_error.h"
#include "write/file_head.h"
#include "write/old_files.h"

namespace safetensors::write {
namespace {

bool is_in_place(const Status& status) noexcept {
  return status || status.error().code == Errc::replaced_not_durable;
}

}  // namespace

Result<std::unique_ptr<CheckpointFolder>> CheckpointFolder::open(std::string_view path, const CheckpointLayout& layout,
                                                                 const CheckpointWriteOptions& options) {
  std::unique_ptr<CheckpointFolder> made(new CheckpointFolder(path, layout, options));
  if (Status status = made->make_folder(); !status) return std::move(status).error();
  if (Status status = made->write_index(); !status) return std::move(status).error();
  return made;
}

Status CheckpointFolder::make_folder() {
  if (path_.find('\0') != std::string::npos)
    return base::make_error(Errc::invalid_argument, "path contains a zero byte", path_);
  const bool exists = os::kind_of(path_) != os::PathKind::nothing;
  if (!exists || options_.new_folder) {
    Result<std::unique_ptr<io::NewFolder>> folder = io::NewFolder::create(path_, to_sync(options_.write.durability));
    if (!folder) return std::move(folder).error();
    new_folder_ = std::move(*folder);
  }
  const std::string& path = new_folder_ ? new_folder_->path() : path_;
  folder_ = os::Descriptor(os::retry([&] { return ::open(path.c_str(), os::kOpenDirectory); }));
  // A folder that may be searched but not read. This descriptor is enough to remove files by their names.
  if (!folder_.valid() && errno == EACCES)
    folder_ = os::Descriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder_.valid()) return {};
  return os::system_error(Errc::open_failed, errno, "cannot open the folder", path_);
}

Status CheckpointFolder::write_index() {
  const std::string_view text = layout_.index_text();
  if (text.empty()) return {};
  if (text.size() > format::kMaxIndexBytes)
    return base::make_error(Errc::invalid_argument,
                            "the index would have " + std::to_string(text.size()) + " bytes, readers accept " +
                                std::to_string(format::kMaxIndexBytes),
                            path_);
  const FilePlace place = place_of(index_name_);
  auto index = io::AtomicFile::create(place.path, text.size(), file_options(), place.shown);
  if (!index) return std::move(index).error();
  index_ = std::move(*index);
  for (std::size_t begin = 0; begin < text.size(); begin += kHeadPiece) {
    Status status = index_->write_at(begin, bytes_of(text.substr(begin, kHeadPiece)));
    if (!status) return status;
  }
  return {};
}

FilePlace CheckpointFolder::place_of(std::string_view name) const {
  return {os::join_path(new_folder_ ? new_folder_->path() : path_, name), os::join_path(path_, name)};
}

io::AtomicFileOptions CheckpointFolder::file_options() const {
  io::AtomicFileOptions options = to_atomic_file_options(options_.write);
  options.links = io::Links::replace;
  return options;
}

Status CheckpointFolder::describe(Ticket& ticket) const {
  std::error_code failed;
  ticket.folder = std::filesystem::absolute(path_, failed).string();
  if (failed) return os::system_error(Errc::open_failed, failed.value(), "cannot find the working directory", path_);
  while (ticket.folder.size() > 1 && ticket.folder.ends_with('/')) ticket.folder.pop_back();
  ticket.temporary_folder = new_folder_ ? new_folder_->temporary() : std::string();
  return {};
}

Error CheckpointFolder::explain(Error error) const {
  if (error.os_error == EMFILE)
    error.message +=
        "; all " + std::to_string(layout_.files().size()) +
        " files are open at the same time: raise the limit of open files, or choose a larger size of files";
  return error;
}

Status CheckpointFolder::commit(std::span<const std::unique_ptr<io::AtomicFile>> files) {
  if (index_) {
    if (Status status = index_->file().finish(); !status) return status;
    if (Status status = index_->check(); !status) return status;
  }
  // If only a sync fails, the files are in place. Then the index follows them, and the old files stay.
  Status synced = io::replace_all(files);
  if (!is_in_place(synced)) return synced;
  Status next = index_ ? put_index(files.size()) : new_folder_ ? Status() : remove_old_index(*files.front());
  if (!is_in_place(next)) return next;
  if (synced) synced = std::move(next);
  if (new_folder_) {
    if (synced) return new_folder_->commit();
    return os::system_error(Errc::sync_failed, synced.error().os_error, "cannot sync the new folder", path_);
  }
  if (synced && options_.remove_old_files) remove_old_files();
  return synced;
}

Status CheckpointFolder::put_index(std::size_t files) {
  Status status = index_->commit();
  if (is_in_place(status)) return status;
  Error error = std::move(status).error();
  error.message += "; all " + std::to_string(files) + " files were already replaced";
  return error;
}

// The old index would lead readers of the folder to the old files. file: the only file of the new model.
Status CheckpointFolder::remove_old_index(io::AtomicFile& file) {
  int error_number = ::unlinkat(folder_.get(), index_name_.c_str(), 0) == 0 ? 0 : errno;
  if (error_number == ENOENT) return {};
  if (error_number == 0) {
    const Status synced = file.sync_directory();
    if (synced) return {};
    return os::system_error(Errc::replaced_not_durable, synced.error().os_error,
                            "the new file is in place, but the removal of the old index was not synced", path_);
  }
  return os::system_error(Errc::replace_failed, error_number,
                          "the new file is in place, but the old index `" + printable(index_name_) +
                              "` cannot be removed and still leads to the old files",
                          path_);
}

// Ignores errors: a file that stays is a stray file, which no index names. The exception is the model of one file: some
// programs look for it before they look for the index. So it goes even if the folder cannot be listed.
void CheckpointFolder::remove_old_files() noexcept {
  (void)base::guarded([&]() -> Status {
    Result<std::vector<std::string>> listed = os::list_open_directory(folder_.get(), path_);
    const std::vector<std::string> names =
        listed ? *std::move(listed) : std::vector<std::string>{std::string(layout_.stem()) + ".safetensors"};
    for (const std::string& name : names) {
      if (is_old_file(layout_, name)) (void)::unlinkat(folder_.get(), name.c_str(), 0);
    }
    return {};
  });
}

}  // namespace safetensors::write
