/// @file
/// Several files that are opened as one set of tensors.
#pragma once

#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// The tensors of several files, such as the shards of a model.
///
/// open() reads and checks all headers, but no bytes of tensors. Copies are cheap, because they share the open files.
/// Tensors and Files may outlive the Checkpoint. Call const functions from any thread, also in a forked child.
///
/// A Checkpoint keeps its files open if they are at most half of `RLIMIT_NOFILE`, as it was in open(). Otherwise, it
/// opens each file again, by its path, when it reads the file, and closes it after. Such a file must still have the
/// same device, inode, size and change time. Otherwise that call returns file_changed. Existing maps stay valid.
class Checkpoint : public detail::TensorSet<Checkpoint> {
 public:
  /// Opens all files that a path stands for.
  ///
  /// `path` is one of these:
  /// - a safetensors file;
  /// - an index, whose name ends in `.json`;
  /// - a folder with one model: an index, a file `*.safetensors`, or all shards (`*-NNNNN-of-NNNNN.safetensors`) of
  ///   one. `model.safetensors.index.json` counts before all other indexes, and an index before files and shards.
  ///   Variants (`model.fp16.safetensors`, `model.safetensors.index.fp16.json`) do not count beside the plain model.
  ///   `model.safetensors` counts before an index that does not name it, as in transformers, unless it has only a part
  ///   of the tensors of the index;
  /// - a folder `models--ORG--NAME` of the cache of huggingface_hub: the snapshot that `refs/main` names, or the only
  ///   one;
  /// - a pattern of files, if nothing has that name: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a character that
  ///   stands for itself. The matching files are sorted by the bytes of their names.
  ///
  /// Names that begin with a dot are ignored in folders. A pattern matches them only if it contains the dot.
  ///
  /// An index decides which tensors exist: a tensor that `weight_map` does not name is invisible. The files of an index
  /// are opened in the order of the bytes of their names. They are relative to the folder of the path of the index, as
  /// given: links are not resolved first. The name of a file must be relative and must end in `.safetensors`. It must
  /// not contain `..`, a colon, a control character or an invisible character. Both the rules of POSIX and those of
  /// Windows apply. An index has at most 2^28 bytes (256 MiB). Reading it takes at most 4 x its size + 64 KiB of
  /// memory. Opening everything takes at most 6 x its size + 1 MiB, in addition to the memory of the files.
  ///
  /// The library examines paths and indexes first, then the files in their order. It returns the first error.
  /// It calls `options.parse.cancelled` during the whole call.
  ///
  /// Errors: those of File::open(), and
  /// - invalid_index: not an index, a name that occurs twice, a file name that is not allowed, or a tensor that is not
  ///   in its file;
  /// - ambiguous_checkpoint: a folder with several equal models; the message names them, and you give the path of one;
  /// - not_found: a folder without a model or without one of its shards, or a pattern without a match;
  /// - duplicate_name: a tensor that is in two files; the message names them.
  static SAFETENSORS_API Result<Checkpoint> open(PathView path, const OpenOptions& options = {}) noexcept;
  /// @{
  /// Opens all files that several paths stand for, in the order of the paths.
  /// Errors: those of open() with one path, and invalid_argument if there are no paths.
  static SAFETENSORS_API Result<Checkpoint> open(Span<const std::string> paths,
                                                 const OpenOptions& options = {}) noexcept;
  static Result<Checkpoint> open(std::initializer_list<std::string> paths, const OpenOptions& options = {}) noexcept {
    return open(Span<const std::string>(paths.begin(), paths.size()), options);
  }
  /// @}

  /// Returns the paths of the files that a path stands for, in the order in which open() opens them. It reads an index,
  /// but opens no safetensors file, so the files may be invalid or missing. Use it to look at each file of a model that
  /// open() refuses.
  /// Errors: those of open() that concern the path and the index.
  static SAFETENSORS_API Result<std::vector<std::string>> find_files(PathView path) noexcept;

  /// Returns the tensors, file after file, sorted by offset within a file. The view is valid as long as any copy of
  /// this Checkpoint exists.
  [[nodiscard]] Tensors tensors() const& noexcept { return Tensors(state_.get()); }
  detail::GiveTheObjectANameFirst tensors() const&& = delete;

  /// Returns the tensor with this name. Error: not_found; the message has the most similar name, if there is one.
  [[nodiscard]] SAFETENSORS_API Result<Tensor> tensor(std::string_view name) const noexcept;
  /// Returns true when there is a tensor with this name.
  [[nodiscard]] SAFETENSORS_API bool contains(std::string_view name) const noexcept;

  /// Returns the metadata of the first file. The shards of a model usually have the same metadata. files() gives the
  /// metadata of each file, and index_metadata() that of the index. The view is valid as long as any copy of this
  /// Checkpoint exists.
  [[nodiscard]] Metadata metadata() const& noexcept {
    return files().empty() ? Metadata() : files().front().metadata();
  }
  detail::GiveTheObjectANameFirst metadata() const&& = delete;

  /// Returns the files, in the order of the paths. The files of one path are sorted by the bytes of their names.
  /// A File has all tensors of the file, even those that an index does not name. The span is valid as long as any copy
  /// of this Checkpoint exists.
  [[nodiscard]] SAFETENSORS_API Span<const File> files() const& noexcept;
  detail::GiveTheObjectANameFirst files() const&& = delete;

  /// Returns the name of the index, such as `model.safetensors.index.json`. It is empty if there is no index, or if the
  /// caller gave several paths. The view is valid as long as any copy of this Checkpoint exists.
  [[nodiscard]] SAFETENSORS_API std::string_view index_name() const& noexcept;
  detail::GiveTheObjectANameFirst index_name() const&& = delete;
  /// Returns the object `metadata` of the index, as JSON in one line, such as `{"total_size":512}`. The text is empty
  /// if there is no index, or if its `metadata` is not an object. With several paths, it is that of the first index.
  /// The view is valid as long as any copy of this Checkpoint exists. Format: docs/checkpoints.md.
  [[nodiscard]] SAFETENSORS_API std::string_view index_metadata() const& noexcept;
  detail::GiveTheObjectANameFirst index_metadata() const&& = delete;

 private:
  explicit Checkpoint(std::shared_ptr<const detail::CheckpointState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const detail::CheckpointState> state_;
};

}  // namespace v0
}  // namespace safetensors
