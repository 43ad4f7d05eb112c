// The folder of a model that is being written: where its files are made, and how they are put in place together.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/checkpoint_writer.h>
#include <safetensors/error.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/atomic_file.h"
#include "io/new_folder.h"
#include "os/descriptor.h"
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

  // Where a file of the layout is created, and the path that errors show: that of the caller's folder.
  [[nodiscard]] FilePlace place_of(std::string_view name) const;
  // Options of each file. A symlink at its path is replaced: two of them may lead to the same file.
  [[nodiscard]] io::AtomicFileOptions file_options() const;
  // Says more about an error of creating a file: how many files are open at the same time.
  [[nodiscard]] Error explain(Error error) const;

  // Sets `folder` and `temporary_folder` of a ticket. Error: open_failed (the working directory is unknown).
  [[nodiscard]] Status describe(Ticket& ticket) const;

  // Puts the files in place, then the index, then the folder if it is new. Removes the old files. files: finished, in
  // the order of the layout. Errors: those of CheckpointWriter::commit().
  [[nodiscard]] Status commit(std::span<const std::unique_ptr<io::AtomicFile>> files);

 private:
  CheckpointFolder(std::string_view path, const CheckpointLayout& layout, const CheckpointWriteOptions& options)
      : path_(path), layout_(layout), options_(options), index_name_(layout.index_name()) {}

  Status make_folder();
  Status write_index();
  Status put_index(std::size_t files);
  Status remove_old_index(io::AtomicFile& file);
  void remove_old_files() noexcept;

  const std::string path_;
  const CheckpointLayout layout_;
  const CheckpointWriteOptions options_;
  const std::string index_name_;               // made early: after the first replacement, no allocation may fail
  std::unique_ptr<io::NewFolder> new_folder_;  // null: the folder exists
  os::Descriptor folder_;                      // the folder in which the files are made; O_PATH if it cannot be read
  std::unique_ptr<io::AtomicFile> index_;      // null: the layout has no index
};

}  // namespace safetensors::write
