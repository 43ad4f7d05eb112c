// Writes tensors of open files again: selected, renamed, cast, in other files or in another order.
#pragma once

#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_layout.h>
#include <safetensors/checkpoint_writer.h>
#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/path.h>
#include <safetensors/span.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/dtype/cast_losses.h"

namespace safetensors {
inline namespace v0 {

// A tensor of the output of a Rewrite, and the tensor of an open file that it comes from.
struct RewriteTensor {
  Tensor tensor;                              // the tensor of the input
  std::optional<std::string> name = {};       // its name in the output; nullopt: the same name
  std::optional<Dtype> dtype = std::nullopt;  // the dtype to cast it to; nullopt: the same dtype
};

// Options of Rewrite::plan().
struct RewriteOptions {
  // Writes a folder: the model `stem.safetensors`, or several files and their index. false: one file.
  bool folder = false;
  // For a folder: the maximum size of the tensors in one file, as CheckpointLayoutOptions::max_shard_size. nullopt:
  // tensors that are in one file of the input stay together.
  std::optional<std::uint64_t> max_shard_size = std::nullopt;
  // For a folder: the beginning of all file names. nullopt: the names of `names_of`.
  std::optional<std::string> stem = std::nullopt;
  // For a folder: the model whose names the output gets. The index has the name of its index. Shards are called as its
  // shards are, with new numbers, if these differ only in their numbers. nullopt: the files of the input.
  std::optional<Checkpoint> names_of = std::nullopt;
  // `__metadata__` of every file. nullopt: no `__metadata__`. See merge_metadata().
  std::optional<MetadataPairs> metadata = std::nullopt;
  // For a folder: `metadata` of the index, as CheckpointLayoutOptions::index_metadata.
  std::string index_metadata = {};
  // As LayoutOptions::keep_order. nullopt keeps the order unless all files of the input have the order of the writer.
  std::optional<bool> keep_order = std::nullopt;
  // Alignment of the data in each file, as LayoutOptions::data_alignment.
  std::uint32_t data_alignment = 0;
};

// The result of the cast of one tensor. A cast of integers loses nothing, so its losses are 0.
struct CastReport {
  std::string_view name;    // name in the output; valid as long as any copy of the RewriteReport exists
  Dtype from = Dtype::U8;   // dtype in the input
  Dtype to = Dtype::U8;     // dtype in the output
  std::uint64_t numel = 0;  // number of elements
  // What the cast lost. Elements that are too large become infinity, or the largest number or NaN if the new dtype has
  // no infinity.
  format::CastLosses losses = {};
};

// The result of Rewrite::write().
struct RewriteReport {
  std::vector<CastReport> casts;      // the tensors that were cast, in the order of the output
  std::vector<std::string> files;     // of a folder: CheckpointWriter::file_names()
  std::shared_ptr<const void> names;  // keeps the names of `casts` valid, and the files of the input open
};

// Writes tensors of open files to a new file, or to the files of a new model:
// const Checkpoint model = Checkpoint::open("llama").value();
// std::vector<RewriteTensor> tensors;
// for (const Tensor& tensor : model.tensors()) tensors.push_back({.tensor = tensor, .dtype = Dtype::BF16});
// Rewrite::plan(std::move(tensors)).value().write("llama.safetensors").value();
//
// plan() reads no tensor and writes nothing. So you can look at the layout before you write. A tensor that is not cast
// keeps its exact bytes. Copies share the contents. Call const functions from any thread.
class Rewrite {
 public:
  // Arranges tensors in files.
  //
  // `tensors` is a list in any order; two tensors must not get one name. If you need `options.metadata` no longer, pass
  // the options with std::move(): this call frees it before it makes the headers. The files of the tensors stay open as
  // long as any copy of the result exists. Errors: those of CheckpointLayout::make(); duplicate_name, with the names of
  // both tensors and of their files; dtype_mismatch (there is no such cast; the message lists those that exist; or
  // Dtype::UNKNOWN); size_overflow.
  static Result<Rewrite> plan(std::vector<RewriteTensor> tensors, RewriteOptions options = {}) noexcept;

  // Returns the files: one file, unless RewriteOptions::folder is set. The reference is valid as long as this object
  // exists.
  [[nodiscard]] const CheckpointLayout& layout() const noexcept { return layout_; }
  // Returns whether write() writes a folder.
  [[nodiscard]] bool folder() const noexcept { return folder_; }

  // Checks that write() into the folder `output` loses no tensor of a model that was read only in part.
  //
  // write() removes the files of an older model. If a file of `input` lies in `output`, then all files that write()
  // would remove or replace must be files of `input`, with all their tensors. Tensors that the caller left out on
  // purpose count as read. Files that a killed writer left do not count: shards of a generation that no index in the
  // folder names, and files whose tensors are all in `input`, byte for byte, under any names. `input` is the model
  // that the tensors come from. write() does not call this function. Errors: invalid_argument, which names the files;
  // open_failed, read_failed (the folder cannot be listed).
  [[nodiscard]] Status check_old_files(PathView output, const Checkpoint& input) const noexcept;

  // Writes the file or the folder `output`. It replaces an existing file as save() does, and an existing model
  // as CheckpointWriter does. `output` may be the input. After any error, the old files are unchanged, except after
  // those errors of Writer::commit() and CheckpointWriter::commit() whose message says that the new file is in place.
  //
  // Up to four threads copy and cast. If possible, the system copies from file to file. Memory: at most 24 MiB, and
  // about 100 bytes per tensor. For one file, `options.new_folder` refuses a path that exists, and `remove_old_files`
  // has no effect. `options.write.progress` runs in the calling thread, as in save().
  // Errors: those of CheckpointWriter::create(), copy() and commit(); unsupported (`options.shared` is set);
  // value_out_of_range (see ReadPlan::add()), and then nothing was written.
  [[nodiscard]] Result<RewriteReport> write(PathView output, const CheckpointWriteOptions& options = {}) const noexcept;

 private:
  Rewrite(std::shared_ptr<const std::vector<RewriteTensor>> items, const CheckpointLayout& layout, bool folder) noexcept
      : items_(std::move(items)), layout_(layout), folder_(folder) {}

  std::shared_ptr<const std::vector<RewriteTensor>> items_;  // in the order of their bytes in the output
  CheckpointLayout layout_;
  bool folder_;
};

// The metadata that merge_metadata() takes if two files have different values for one key.
enum class MetadataConflict : std::uint8_t {
  refuse,  // none: the error is invalid_argument, and names the key, both values and both files
  first,   // the value of the first file
  last,    // the value of the last file
};

// Returns the metadata of several files as one: all pairs, sorted by key. Returns nullopt if no file has a
// `__metadata__`. Errors: invalid_argument (see MetadataConflict), out_of_memory.
[[nodiscard]] Result<std::optional<MetadataPairs>> merge_metadata(
    Span<const File> files, MetadataConflict conflict = MetadataConflict::refuse) noexcept;

}  // namespace v0
}  // namespace safetensors
