/// @file
/// Writes files: from memory at once, or in several calls. Edits the metadata of existing files.
#pragma once

#include <safetensors/array.h>
#include <safetensors/callback.h>
#include <safetensors/durability.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/path.h>
#include <safetensors/slice.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// Options of the functions that write files.
struct WriteOptions {
  /// The guarantee after a power cut.
  Durability durability = Durability::full;
  /// On a file system that cannot rename, such as some mounts of object stores, write in place instead of returning the
  /// error unsupported: the library writes the whole new file beside the old one, and then copies it over the old one.
  /// This takes twice the space and time. An error or a crash while it copies leaves an incomplete file.
  bool in_place_if_no_rename = false;
  /// Called every few MiB with the number of bytes written and the total size of the file, or of all files together.
  /// Without an error, the last call has the total twice, also if no tensor has a byte. While save() or
  /// save_checkpoint() waits for its threads, calls may repeat a number.
  ///
  /// Runs in the thread that calls save(), edit_metadata(), or write(), write_slice(), copy() or commit() of a Writer,
  /// and never in two threads at once. Return false to cancel: this call, and all later calls of the Writer, return
  /// Errc::cancelled. The old file is then unchanged. In edit_metadata(), the last call comes when the new file is
  /// durable but not yet in place. With EditOptions::in_place, edit_metadata() does not call it. Must not throw. Must
  /// not use the Writer.
  Callback<bool(std::uint64_t completed, std::uint64_t total)> progress = nullptr;
  /// The treatment of a symlink at the path.
  ///
  /// false: the link is followed, and the file that it leads to is replaced. true: the link becomes a regular file. It
  /// gets the mode and owner of the file that it led to, and that file does not change. A link to a device, a FIFO or a
  /// socket, or into `/proc`, `/sys` or a similar file system, is then refused with Errc::not_regular_file.
  bool replace_symlinks = false;
  /// Replace nothing. If something is at the path, even a symlink, the error is replace_failed with EEXIST, also if it
  /// appears while the file is written.
  bool new_file = false;
};

/// A tensor in memory of the caller. All members must stay valid during the call.
struct TensorData {
  std::string_view name;        ///< valid UTF-8
  Dtype dtype = Dtype::U8;      ///< type of the elements
  ShapeView shape;              ///< dimensions in elements, outermost first
  Span<const std::byte> bytes;  ///< elements in C order, little-endian, exactly as many as `shape` says
};

/// Returns the header that serialize() and save() write for these tensors.
/// Errors: those of HeaderBuilder, and data_length.
[[nodiscard]] SAFETENSORS_API Result<Header> layout(Span<const TensorData> tensors,
                                                    const std::optional<MetadataPairs>& metadata = std::nullopt,
                                                    const LayoutOptions& options = {}) noexcept;

/// Returns the bytes of a file, as an Array of dtype U8. Errors: those of layout(), and out_of_memory.
[[nodiscard]] SAFETENSORS_API Result<Array> serialize(Span<const TensorData> tensors,
                                                      const std::optional<MetadataPairs>& metadata = std::nullopt,
                                                      const LayoutOptions& options = {}) noexcept;

/// Writes a file in several calls, in any order. The file may be larger than the memory.
///
/// Nothing appears at the path before commit(). Without commit(), the destructor removes the bytes written. In a forked
/// child, you may only destroy the Writer.
class Writer {
 public:
  /// Starts to write a file with this header. Errors: those of save().
  static SAFETENSORS_API Result<Writer> create(PathView path, const Header& header,
                                               const WriteOptions& options = {}) noexcept;

  /// @{
  /// Moves the work. The Writer moved from is closed.
  Writer(Writer&&) noexcept = default;
  Writer& operator=(Writer&&) noexcept = default;
  /// @}
  /// Removes the bytes written, unless commit() was successful.
  ~Writer() = default;

  /// Writes the bytes [offset, offset + bytes.size()) of a tensor. `offset` is in bytes from the start of the tensor:
  /// row i of a matrix begins at i times the bytes of a row.
  ///
  /// Write each byte exactly once. Any number of threads may call write(), write_slice() and copy() at the same time.
  /// After the first failure to write, or to read what copy() copies, all calls return that failure.
  ///
  /// Unless the durability is `none`, calls with at least 256 KiB write to the disk at once, with up to four threads of
  /// their own. Few large calls are then faster than many small ones. A Writer needs at most 8 MiB of memory in
  /// addition.
  /// Errors: not_found, overlapping_write, buffer_size (after the end of the tensor), write_failed, out_of_memory,
  /// writer_closed, cancelled.
  [[nodiscard]] SAFETENSORS_API Status write(std::string_view name, std::uint64_t offset,
                                             Span<const std::byte> bytes) noexcept;

  /// Writes a slice of a tensor, for instance a block of columns: `writer.write_slice("w", ":, 8:16", bytes)`.
  ///
  /// `bytes` holds the elements of the slice in C order. Each run of the slice is one write, so a slice of whole rows
  /// is one write, and a slice of columns has one write per row. Slices with any step are allowed. Otherwise, the call
  /// works as write(). Any number of threads may call it at the same time. Errors: those of write() and of
  /// Slice::resolve(); data_length (not the size of the slice).
  [[nodiscard]] SAFETENSORS_API Status write_slice(std::string_view name, const Slice& slice,
                                                   Span<const std::byte> bytes) noexcept;

  /// Writes a whole tensor with the contents of a tensor of another file. Both must have the same dtype and shape.
  ///
  /// It uses the same 8 MiB of memory. Several threads may read the Source of `tensor` at the same time. An
  /// error of reading is a failure of the writer, too.
  /// Errors: those of write(), dtype_mismatch, data_length, and those of reading.
  [[nodiscard]] SAFETENSORS_API Status copy(std::string_view name, const Tensor& tensor) noexcept;

  /// Completes the file and puts it in place. No other call may run at the same time.
  ///
  /// The error incomplete_write names the first tensor and range that are missing. The Writer stays usable after it.
  /// Errors: those of save(), incomplete_write, writer_closed.
  [[nodiscard]] SAFETENSORS_API Status commit() noexcept;

  /// Returns the header of the file. It is an empty Header after a move from the Writer. The reference is valid as long
  /// as this object exists.
  [[nodiscard]] const Header& header() const& noexcept { return header_; }
  detail::GiveTheObjectANameFirst header() const&& = delete;

 private:
  struct State;
  Writer(const Header& header, std::shared_ptr<State> state) noexcept : header_(header), state_(std::move(state)) {}
  Header header_;
  // Only this object owns it. A shared_ptr needs no complete State to destroy it.
  std::shared_ptr<State> state_;
};

/// Options of edit_metadata().
struct EditOptions {
  /// Overwrite only the header of the file. The new header must fit into the place of the old one. Otherwise the error
  /// is header_does_not_fit. This is fast for huge files, but not atomic. A kill or a power cut during the write leaves
  /// a broken header. A reader that opens the file during the write sees a broken header.
  bool in_place = false;
  /// Without in_place: number of spaces to leave in the header for later edits.
  std::uint64_t metadata_slack = 0;
  WriteOptions write = {};  ///< options for the new file
  ParseOptions parse = {};  ///< options for the old header
};

/// @{
/// Sets and removes metadata keys of a file:
/// @code
/// edit_metadata("model.safetensors", {{"license", "mit"}, {"draft", std::nullopt}}).value();
/// @endcode
///
/// An edit is a key and its new value. Both are valid UTF-8. nullopt removes the key; a missing key is not an error.
///
/// Without EditOptions::in_place, it writes a new file, and the system copies the bytes of the tensors. The new file
/// replaces the old one as in save(). If the old file was changed or replaced in the meantime, the error is
/// file_changed and the file stays as it is. This is best effort: a change between the last check and the replacement
/// is lost.
/// Errors: those of File::open(), HeaderBuilder and save(), header_does_not_fit, file_changed, unsupported (the file
/// has accepted faults).
[[nodiscard]] SAFETENSORS_API Status edit_metadata(PathView path,
                                                   Span<const std::pair<std::string, std::optional<std::string>>> edits,
                                                   const EditOptions& options = {}) noexcept;
[[nodiscard]] inline Status edit_metadata(
    PathView path, std::initializer_list<std::pair<std::string, std::optional<std::string>>> edits,
    const EditOptions& options = {}) noexcept {
  return edit_metadata(
      path, Span<const std::pair<std::string, std::optional<std::string>>>(edits.begin(), edits.size()), options);
}
/// @}

}  // namespace v0
}  // namespace safetensors
