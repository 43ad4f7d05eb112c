// The folder of a model that is being written: where its files are made, and how they are put in place together.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/checkpoint_writer.h>
#include <safetensors/error.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.h"
#include "io/new_folder.h"
#include "os/descriptor.h"
#include "write/leftovers.h"
#include "write/tensor_file.h"
#include "write/ticket.h"

namespace safetensors::write {

class CheckpointFolder {
 public:
  // Opens the folder, or makes a temporary folder if nothing is at the path. Also writes the index, under a temporary
  // name. Errors: those of CheckpointWriter::create().
  [[nodiscard]] static Result<std::unique_ptr<CheckpointFolder>> open(std::string_view path,
                                                                      const CheckpointLayout& layout,
                                                                      const CheckpointWriteOptions& options);

  // Returns the path at which a file of the layout is created, and the path that errors show, which is in the caller's
  // folder. If the folder has the file of an older model with the same number, the new file gets the mode of that file.
  [[nodiscard]] FilePlace place_of(std::size_t file) const;
  // Options of each file. A symlink at its path is replaced: two of them may lead to the same file.
  [[nodiscard]] io::AtomicFileOptions file_options() const;
  // Says more about an error of creating a file: how many files are open at the same time.
  [[nodiscard]] Error explain(Error error) const;

  // Sets `folder` and `temporary_folder` of a ticket. Error: open_failed (the working directory is unknown).
  [[nodiscard]] Status describe(Ticket& ticket) const;

  // Puts the files in place under names that are free, then the index, then the folder if it is new. Removes the old
  // files. files: finished, in the order of the layout. Errors: those of CheckpointWriter::commit().
  [[nodiscard]] Status commit(std::span<const std::unique_ptr<io::AtomicFile>> files);
  // The names of the files in the folder, in the order of the layout. Final after commit().
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  using Files = std::span<const std::unique_ptr<io::AtomicFile>>;

  CheckpointFolder(std::string_view path, const CheckpointLayout& layout, const CheckpointWriteOptions& options);

  Status make_folder();
  void remove_leftovers();
  void find_old_files();
  void look_at_old_files();
  [[nodiscard]] std::size_t last_generation() const;
  void choose_names();
  [[nodiscard]] bool old_index_names(const std::string& name) const;
  [[nodiscard]] Status check_hiding() const;
  [[nodiscard]] int look_for(const std::string& name) const noexcept;
  Status create_index();
  Status write_index();
  Status write_index_text(const std::function<Status(std::string_view)>& write) const;
  Status put_in_place(Files files);
  Status remove_hiding(const std::string& name, io::AtomicFile& file);
  void remove_old_files() noexcept;

  const std::string path_;
  const CheckpointLayout layout_;
  const CheckpointWriteOptions options_;
  std::string index_name_;
  std::vector<std::string> layout_names_;
  std::vector<std::string> names_;
  std::vector<std::string> old_names_;         // per file of the layout: an older file with its number, or empty
  std::vector<std::string> listed_;            // the names in the folder when commit() began
  NamedFiles named_;                           // the files that its indexes named then
  std::vector<std::string> taken_names_;       // names that choose_names() found in use
  std::size_t removed_generation_ = 0;         // the highest one that remove_leftovers() removed
  bool indexed_ = false;                       // the new model has an index
  std::unique_ptr<io::NewFolder> new_folder_;  // null: the folder exists
  os::Descriptor folder_;  // the folder in which the files are made; for names only if it cannot be read
  std::unique_ptr<io::AtomicFile> index_;  // null: neither the new model nor an old one has an index
};

}  // namespace safetensors::write
