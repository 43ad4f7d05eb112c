// The folder of a model that is being written: where its files are made, and how they are put in place together.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/checkpoint_writer.h>
#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/atomic_file.h"
#include "os/descriptor.h"
#include "os/file_status.h"
#include "write/old_files.h"
#include "write/ticket.h"

namespace safetensors::write {

class CheckpointFolder {
 public:
  ~CheckpointFolder();

  // Opens the folder, or makes a temporary folder if nothing is at the path. Also writes the index, under a temporary
  // name. Errors: those of CheckpointWriter::create().
  [[nodiscard]] static Result<std::unique_ptr<CheckpointFolder>> open(std::string_view path,
                                                                      const CheckpointLayout& layout,
                                                                      const CheckpointWriteOptions& options);

  // Creates a file of the layout. Errors show its path in the caller's folder. The new file gets the mode and the owner
  // that the files of the older model have in common. A symlink at its path is replaced: two of them may lead to the
  // same file. size: of the file. shared: see AtomicFileOptions.
  [[nodiscard]] Result<std::unique_ptr<io::AtomicFile>> create_file(std::size_t file, std::uint64_t size,
                                                                    bool shared = false) const;

  // Sets `durability`, `folder` and `temporary_folder` of a ticket. Error: open_failed (the working directory is
  // unknown).
  [[nodiscard]] Status describe(Ticket& ticket) const;

  // Puts the files in place under names that are free, then the index, then the folder if it is new. Removes the old
  // files. files: finished, in the order of the layout. Errors: those of CheckpointWriter::commit().
  [[nodiscard]] Status commit(std::span<const std::unique_ptr<io::AtomicFile>> files);
  // The names of the files in the folder, in the order of the layout. Final after commit().
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  using Files = std::span<const std::unique_ptr<io::AtomicFile>>;

  CheckpointFolder(std::string_view path, const CheckpointLayout& layout, const CheckpointWriteOptions& options);

  Status open_folder();
  [[nodiscard]] bool is_new() const noexcept { return !temporary_.empty(); }
  [[nodiscard]] std::pair<std::string, std::string> parent_and_name() const;
  [[nodiscard]] std::string place() const;  // path of the folder in which the files are made
  Status make_new_folder();
  [[nodiscard]] bool is_replaced() const noexcept;
  Status commit_new_folder();
  void discard_new_folder() noexcept;
  void look_at_folder();
  void remove_leftovers();
  void find_old_files();
  [[nodiscard]] std::size_t last_generation() const;
  void choose_names();
  [[nodiscard]] bool old_index_names(const std::string& name) const;
  [[nodiscard]] Status check_hiding() const;
  [[nodiscard]] bool is_file(const std::string& name, os::FileStatus& found) const noexcept;
  [[nodiscard]] int look_for(const std::string& name) const noexcept;
  [[nodiscard]] Result<std::unique_ptr<io::AtomicFile>> create_named(const std::string& name, const std::string& shown,
                                                                     std::uint64_t size,
                                                                     const io::AtomicFileOptions& more) const;
  Status create_index();
  Status write_index();
  Status put_in_place(Files files);
  Status remove_hiding(const std::string& name, io::AtomicFile& file);
  void remove_old_files() noexcept;

  const std::string path_;
  const CheckpointLayout layout_;
  const CheckpointWriteOptions options_;
  const std::uint64_t process_;  // the child of a fork must not remove its parent's folder
  std::string index_name_;
  std::vector<std::string> layout_names_;
  std::vector<std::string> names_;
  std::optional<os::FileStatus> common_;  // the mode and the owner that the older files have in common
  std::string old_file_;                  // the name of one of them, or empty
  std::vector<std::string> listed_;       // the names in the folder
  NamedFiles named_;                      // the files that its indexes name
  std::vector<std::string> taken_names_;  // names that choose_names() found in use
  std::size_t removed_generation_ = 0;    // the highest one that remove_leftovers() removed
  bool indexed_ = false;                  // the new model has an index
  os::Descriptor parent_;                 // of a new folder
  std::string temporary_;                 // name of a new folder until it is in place; empty: the folder exists
  os::Descriptor folder_;                 // the folder in which the files are made; for names only if it cannot be read
  std::unique_ptr<io::AtomicFile> index_;  // null: neither the new model nor an old one has an index
};

}  // namespace safetensors::write
