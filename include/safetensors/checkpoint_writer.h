/// @file
/// Writes a model of several files: the files (shards) and their index.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/path.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

namespace safetensors {
inline namespace v0 {

/// Options of CheckpointWriter::create() and save_checkpoint().
struct CheckpointWriteOptions {
  /// Options of each file. `replace_symlinks` is always on, because two symlinks may lead to one file. `progress`
  /// counts the bytes of all files, without the index.
  WriteOptions write = {};
  /// Refuse a folder that exists. Then no reader ever sees a mix of old and new files: see CheckpointWriter.
  bool new_folder = false;
  /// After the new files are in place, remove the files of an older model with the same stem: `stem.safetensors` and
  /// `stem-NNNNN-of-NNNNN.safetensors`. Files with other names stay. In a folder that the caller may write but not
  /// read, only `stem.safetensors` is removed, because numbered files cannot be looked for.
  bool remove_old_files = true;
};

/// Writes the files of a model, in any order and from any thread.
///
/// If there is nothing at the path of the folder, the files are written in a temporary folder next to it. commit()
/// renames it, so the whole model appears at once. A crash leaves at most the temporary folder, which clean_directory()
/// removes.
///
/// In a folder that exists, commit() puts the files in place one after the other, and the index last. So a crash leaves
/// the old model readable if the new files have other names than the old ones. The names differ if the number of files
/// differs. If the names are the same, a crash leaves some new and some old files under one index. To avoid this, write
/// into a new folder.
///
/// No file of an old model changes before commit(). Without commit(), the destructor removes the bytes written. Up to
/// three descriptors per file are open at the same time. In a forked child, you may only destroy the CheckpointWriter.
class CheckpointWriter {
 public:
  /// Starts to write a model into a folder. The parent of the folder must exist.
  /// Errors: those of Writer::create(); replace_failed with EEXIST (the folder exists, and options.new_folder is set).
  static SAFETENSORS_API Result<CheckpointWriter> create(PathView folder, const CheckpointLayout& layout,
                                                         const CheckpointWriteOptions& options = {}) noexcept;

  /// @{
  /// Moves the work. The CheckpointWriter moved from is closed.
  SAFETENSORS_API CheckpointWriter(CheckpointWriter&&) noexcept;
  SAFETENSORS_API CheckpointWriter& operator=(CheckpointWriter&&) noexcept;
  /// @}
  /// Removes the bytes written, unless commit() was successful.
  SAFETENSORS_API ~CheckpointWriter();

  /// @{
  /// Writes bytes, rows or a whole tensor, as the functions of Writer with the same names do. Any number of threads may
  /// call them at the same time. After the first failure to write, all calls return that failure. Errors: those of the
  /// functions of Writer.
  [[nodiscard]] SAFETENSORS_API Status write(std::string_view name, std::uint64_t offset,
                                             std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] SAFETENSORS_API Status write_rows(std::string_view name, std::uint64_t first_row,
                                                  std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] SAFETENSORS_API Status copy(std::string_view name, const Tensor& tensor) noexcept;
  /// @}

  /// Completes all files, puts them in place, then writes the index, then removes old files. No other call may run at
  /// the same time.
  ///
  /// The error incomplete_write names the first missing range. The CheckpointWriter stays usable after it.
  ///
  /// If the new model is one file, an old index with the same stem is removed, because it would hide the new file. Old
  /// files that cannot be removed are not an error: Checkpoint::stray_files() finds them. After the error
  /// replaced_not_durable, the new model is in place, and old files stay.
  /// Errors: those of Writer::commit(); replace_failed (also if the old index cannot be removed, or if something has
  /// appeared at the path of a new folder). The message says how many files were already replaced.
  [[nodiscard]] SAFETENSORS_API Status commit() noexcept;

  /// Returns the layout. The reference is valid as long as this object exists.
  [[nodiscard]] const CheckpointLayout& layout() const& noexcept { return layout_; }
  const CheckpointLayout& layout() const&& = delete;

 private:
  struct State;
  CheckpointWriter(const CheckpointLayout& layout, std::unique_ptr<State> state) noexcept;
  CheckpointLayout layout_;
  std::unique_ptr<State> state_;
};

/// @{
/// Saves tensors as a model of several files:
/// @code
/// save_checkpoint("model", {{"w", {2, 3}, w}, {"b", {2}, b}}, {.max_shard_size = 2'000'000'000}).value();
/// @endcode
///
/// The layout is that of CheckpointLayout::make(), in the order given. The folder is written as by CheckpointWriter.
/// Tensors may come from the files that are replaced.
/// Errors: those of CheckpointLayout::make(), CheckpointWriter and save().
[[nodiscard]] SAFETENSORS_API Status save_checkpoint(PathView folder, std::span<const NamedTensor> tensors,
                                                     const CheckpointLayoutOptions& layout = {},
                                                     const CheckpointWriteOptions& options = {}) noexcept;
[[nodiscard]] inline Status save_checkpoint(PathView folder, std::initializer_list<NamedTensor> tensors,
                                            const CheckpointLayoutOptions& layout = {},
                                            const CheckpointWriteOptions& options = {}) noexcept {
  return save_checkpoint(folder, std::span<const NamedTensor>(tensors.begin(), tensors.size()), layout, options);
}
/// @}

/// Does the same with a layout that was made before. `tensors` must be exactly the tensors of the layout, in any order.
/// Errors: those above; not_found (a tensor is not in the layout), dtype_mismatch and shape_mismatch (the layout has
/// another dtype or shape), duplicate_name, incomplete_write (a tensor of the layout is missing).
[[nodiscard]] SAFETENSORS_API Status save_checkpoint(PathView folder, std::span<const NamedTensor> tensors,
                                                     const CheckpointLayout& layout,
                                                     const CheckpointWriteOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
