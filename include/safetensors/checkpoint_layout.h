/// @file
/// Decides which tensors of a model go into which file (shard), and makes the text of the index. No function of this
/// header opens a file.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/shape.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace safetensors {
inline namespace v0 {

/// A tensor of a model that is to be split into files.
struct CheckpointTensor {
  std::string_view name;    ///< valid UTF-8
  Dtype dtype = Dtype::U8;  ///< type of the elements
  ShapeView shape;          ///< dimensions in elements, outermost first
  /// Tensors with the same value share memory. They go into the same file, and `total_size` counts only the first of
  /// them. 0: the tensor shares nothing, but tensors without bytes go into one file, unless `storage_bytes` or `file`
  /// is given. This is what huggingface_hub does with torch tensors. Every tensor is nevertheless written whole.
  std::uint64_t storage = 0;
  /// The size of the tensor in the split and in `total_size`, in bytes. nullopt: the size of its elements.
  /// huggingface_hub uses the size of the whole storage of a torch tensor.
  std::optional<std::uint64_t> storage_bytes = std::nullopt;
  /// Chooses the file of the tensor. Tensors with the same value go into one file, and the files are in the order of
  /// the values. Either all tensors have a value or none has one. `max_shard_size` has then no effect.
  std::optional<std::size_t> file = std::nullopt;
};

/// Options of CheckpointLayout::make().
struct CheckpointLayoutOptions {
  /// Maximum size of the tensors in one file, in bytes. A larger tensor gets a file of its own.
  std::uint64_t max_shard_size = 5'000'000'000;
  /// The beginning of all file names: `model` makes `model.safetensors`, or `model-00001-of-00002.safetensors` and so
  /// on with `model.safetensors.index.json`. It must not contain a separator, and the names must be allowed in an
  /// index.
  std::string_view stem = "model";
  /// `__metadata__` of every file. No pairs: no `__metadata__`.
  MetadataPairs metadata = {};
  /// Writes an empty `__metadata__` if there are no pairs.
  bool metadata_present = false;
  /// `metadata` of the index, as the text of a JSON object. `total_size` is replaced, all other members stay. Empty:
  /// only `total_size`. Checkpoint::index_metadata() returns such a text.
  std::string_view index_metadata = {};
  LayoutOptions layout = {};  ///< options of the header of every file
};

/// One file of a CheckpointLayout.
struct CheckpointFile {
  std::string name;  ///< name of the file in a new folder. Over a model, see CheckpointWriter::file_names()
  Header header;     ///< its header
};

/// The files of a model: their names, their headers and the text of the index.
///
/// A layout depends only on the arguments of make(). So several processes that make it from the same arguments have the
/// same layout. Copies are cheap, because they share the contents. Call const functions from any thread.
class CheckpointLayout {
 public:
  /// @{
  /// Makes a copy, which shares the contents. A move copies, too, so a CheckpointLayout always has contents.
  CheckpointLayout(const CheckpointLayout&) noexcept = default;
  CheckpointLayout& operator=(const CheckpointLayout&) noexcept = default;
  /// @}

  /// @{
  /// Splits tensors into files, in the order given, exactly as `split_torch_state_dict_into_shards` of huggingface_hub
  /// does:
  ///
  /// - A tensor goes into the current file. If that file would then have more than `max_shard_size` bytes of tensors,
  ///   the tensor begins the next file. Headers do not count.
  /// - A tensor of more than `max_shard_size` bytes gets a file of its own. The current file stays current, so the
  ///   number of the new file is lower than that of the current file.
  /// - A tensor that shares its storage with an earlier tensor goes into the file of that tensor. Its size does not
  ///   count.
  /// - If there is one file, it is called `stem.safetensors`, and there is no index. If there are no tensors, there is
  ///   one file without tensors.
  ///
  /// Copies all texts. Errors: those of HeaderBuilder, duplicate_name (also across files); size_overflow (`total_size`
  /// is larger than 2^64-1); invalid_argument (a stem that is not allowed, `index_metadata` is not an object, or only
  /// some tensors have CheckpointTensor::file).
  static SAFETENSORS_API Result<CheckpointLayout> make(Span<const CheckpointTensor> tensors,
                                                       const CheckpointLayoutOptions& options = {}) noexcept;
  static Result<CheckpointLayout> make(std::initializer_list<CheckpointTensor> tensors,
                                       const CheckpointLayoutOptions& options = {}) noexcept {
    return make(Span<const CheckpointTensor>(tensors.begin(), tensors.size()), options);
  }
  /// @}

  /// Returns the files, in the order of their numbers. The span is valid as long as any copy of this object exists.
  [[nodiscard]] SAFETENSORS_API Span<const CheckpointFile> files() const& noexcept;
  detail::GiveTheObjectANameFirst files() const&& = delete;
  /// Returns the position in files() of the file of a tensor, or nullopt if there is no tensor with this name.
  [[nodiscard]] SAFETENSORS_API std::optional<std::size_t> file_of(std::string_view tensor) const noexcept;
  /// Returns the sum of the sizes of all tensors, in bytes. Tensors that share a storage count once. If
  /// CheckpointTensor::storage_bytes is given, it counts instead of the size of the elements.
  [[nodiscard]] SAFETENSORS_API std::uint64_t total_size() const noexcept;

  /// Returns the name of the index, `stem.safetensors.index.json`, also if there is none.
  [[nodiscard]] SAFETENSORS_API std::string index_name() const;
  /// Returns the text of the index, or an empty text if there is one file. It equals the text that huggingface_hub
  /// writes, byte for byte: JSON with an indent of 2, without a new line at its end, `metadata` (first `total_size`)
  /// and then `weight_map`. The tensors are in the order of the files, and in a file in the order given. Tensors that
  /// share an earlier storage come last in their file. The view is valid as long as any copy of this object exists.
  [[nodiscard]] SAFETENSORS_API std::string_view index_text() const& noexcept;
  detail::GiveTheObjectANameFirst index_text() const&& = delete;

 private:
  friend struct detail::Access<CheckpointLayout>;
  struct State;
  explicit CheckpointLayout(std::shared_ptr<const State> state) noexcept;
  std::shared_ptr<const State> state_;
};

}  // namespace v0
}  // namespace safetensors
