/// @file
/// Writes a model of several files: the files (shards) and their index.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/path.h>
#include <safetensors/save.h>
#include <safetensors/slice.h>
#include <safetensors/span.h>
#include <safetensors/writer.h>

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

/// Options of CheckpointWriter::create() and save_checkpoint().
struct CheckpointWriteOptions {
  /// Options of each file. `replace_symlinks` is always on, because two symlinks may lead to one file. `progress`
  /// counts the bytes of all files, without the index.
  WriteOptions write = {};
  /// Refuse a folder that exists.
  bool new_folder = false;
  /// After the new files are in place, remove the files of an older model with the same stem: those that its index
  /// names, and `stem.safetensors` and `stem-NNNNN-of-NNNNN.safetensors` in all generations. Other files stay, and so
  /// do files that another index names. In a folder that the caller may write but not read, numbered files stay that
  /// the index does not name, because they cannot be looked for.
  bool remove_old_files = true;
  /// Other processes write, too: see CheckpointWriter::join(). WriteOptions::in_place_if_no_rename is then refused.
  bool shared = false;
};

/// Writes the files of a model, in any order and from any thread.
///
/// If there is nothing at the path of the folder, the files are written in a temporary folder next to it. commit()
/// renames it, so the whole model appears at once. A crash leaves at most the temporary folder. The next save to this
/// path removes it.
///
/// In a folder that exists, the rename of the index is the commit: readers that follow the index see the old model
/// before it and the new model after it, also after a crash at any moment. If an old `stem.safetensors` is there, its
/// removal is the commit, because this file counts before the index: see Checkpoint::open(). An old index of the stem
/// in another form, such as `model.safetensors.index.fp16.json` for `model.fp16`, is replaced, and keeps its name.
/// New files never replace files of the old model. If the folder has shards or an index of the stem, all new files get
/// the names of the next generation, such as `model-gen00002-00001-of-00008.safetensors`; file_names() returns them.
/// Then the old files are removed. A model of one file has no index: one rename replaces the old file. (If an index in
/// the folder names the old file, or files with another stem, the new model gets an index, too.) A lock on the folder
/// lets one writer at a time commit. There is no such lock on network and user-space file systems, and in a folder that
/// the caller may not list. Let only one process at a time save there.
///
/// No file of an old model changes before commit(). Without commit(), the destructor removes the bytes written. A
/// killed writer leaves temporary files. The next CheckpointWriter of the folder removes them, if their lock proves
/// that the writer is dead. create() also removes shards that a killed writer left: no index in the folder names them.
/// It does so under the lock of the folder, and not if remove_old_files is false or if this process has them open. Up
/// to three descriptors per file are open at the same time. In a forked child, you may only destroy the
/// CheckpointWriter.
///
/// Several processes can write one model together, each its own bytes:
/// @code
/// // In one process, the creator:
/// auto writer = CheckpointWriter::create("model", layout, {.shared = true}).value();
/// send_to_others(writer.ticket().value());
/// // In every other process, which makes the same layout:
/// auto joined = CheckpointWriter::join(received_ticket, layout).value();
/// joined.write_slice("w", Slice::shard(0, rank, world), my_rows).value();
/// send_to_creator(joined.receipt().value());
/// // In the creator, which may write a part, too:
/// for (const std::string& receipt : received_receipts) writer.accept(receipt).value();
/// writer.commit().value();
/// @endcode
///
/// Tickets and receipts are short texts. The caller carries them from process to process by any means. Only the creator
/// puts files in place and removes files. If any process fails or is killed before commit(), the old model stays. The
/// creator's object removes the temporary files. If the creator is killed, the next save removes them, even while
/// other processes have them open.
///
/// On one machine, any two processes may write neighbouring bytes. On several machines, the path of the folder must
/// lead to the same folder on each. A network file system may write whole pages there: let no two machines write bytes
/// of the same 4096 bytes of a file, unless the file system keeps the caches of all machines coherent.
class CheckpointWriter {
 public:
  /// Starts to write a model into a folder. The parent of the folder must exist.
  /// Errors: those of Writer::create(); replace_failed with EEXIST (the folder exists, and options.new_folder is set).
  static SAFETENSORS_API Result<CheckpointWriter> create(PathView folder, const CheckpointLayout& layout,
                                                         const CheckpointWriteOptions& options = {}) noexcept;

  /// Joins the work of another process. `ticket` is the ticket() of its writer. `layout` must be made from the same
  /// arguments as the layout of the creator.
  ///
  /// The first write into a file opens its temporary file and compares its header with the layout. So a process with
  /// another layout writes nothing. It needs permission to read and write the files of the creator: use the same user.
  /// The joined writer never creates, renames or removes a file. Its destructor leaves everything in place. A forked
  /// child may join, if it does not use the object of its parent.
  ///
  /// The function uses only `options.write.progress`. It counts the bytes that this writer writes, and its total is the
  /// size of all files, so it never reaches the total. The ticket decides the durability.
  /// Errors: invalid_argument (the text is not a ticket, or the layout has another number of files), and those of
  /// Header::text().
  static SAFETENSORS_API Result<CheckpointWriter> join(std::string_view ticket, const CheckpointLayout& layout,
                                                       const CheckpointWriteOptions& options = {}) noexcept;

  /// @{
  /// Moves the work. The CheckpointWriter moved from is closed.
  CheckpointWriter(CheckpointWriter&&) noexcept = default;
  CheckpointWriter& operator=(CheckpointWriter&&) noexcept = default;
  /// @}
  /// Removes the bytes written, unless commit() was successful. A joined writer removes nothing.
  ~CheckpointWriter() = default;

  /// @{
  /// Writes bytes, a slice or a whole tensor, as the functions of Writer with the same names do. Any number of
  /// threads may call them at the same time. After the first failure, all calls return that failure. Errors:
  /// those of the functions of Writer. In a joined writer also: open_failed (the creator has committed, failed or
  /// ended), not_regular_file, read_failed, file_changed, and invalid_argument (the layout differs from that of the
  /// creator).
  [[nodiscard]] SAFETENSORS_API Status write(std::string_view name, std::uint64_t offset,
                                             Span<const std::byte> bytes) noexcept;
  [[nodiscard]] SAFETENSORS_API Status write_slice(std::string_view name, const Slice& slice,
                                                   Span<const std::byte> bytes) noexcept;
  [[nodiscard]] SAFETENSORS_API Status copy(std::string_view name, const Tensor& tensor) noexcept;
  /// @}

  /// Returns the text that join() takes in other processes. It names the temporary files, so it is valid until commit()
  /// or the end of the creator. It has about 45 bytes per file.
  /// Errors: invalid_argument (the writer is not shared or has joined, or the path of the folder is not UTF-8),
  /// open_failed (the working directory is unknown), writer_closed.
  [[nodiscard]] SAFETENSORS_API Result<std::string> ticket() const noexcept;

  /// Completes the part of a joined writer, and closes it. Syncs its files, according to the durability of the creator.
  /// Returns the text that accept() takes in the creator. It lists the ranges written, and ranges of equal size at
  /// equal distances are one entry. No other call may run at the same time.
  /// Errors: the first failure to write; sync_failed, write_failed; writer_closed; invalid_argument (the writer has not
  /// joined, or it wrote more than 2^24 ranges that do not touch).
  [[nodiscard]] SAFETENSORS_API Result<std::string> receipt() noexcept;

  /// Adds the bytes that a joined writer wrote to those that this writer wrote. A receipt is accepted whole or not at
  /// all. Needs about 64 bytes of memory for each range that touches no other range. The time depends on the ranges of
  /// this receipt, not on those accepted before. Any number of threads may call it and write at the same time.
  ///
  /// After the error overlapping_write, two processes wrote the same byte. Nobody knows whose bytes the file has, so
  /// all later calls return this error. After every other error, the writer stays usable. Errors: invalid_argument (the
  /// writer is not shared or has joined; the text is not a receipt of this session; the receipt was already
  /// accepted), overlapping_write, cancelled, writer_closed.
  [[nodiscard]] SAFETENSORS_API Status accept(std::string_view receipt) noexcept;

  /// Completes all files, puts them in place, then writes the index, then removes old files. No other call may run at
  /// the same time.
  ///
  /// The error incomplete_write names the first missing range. The CheckpointWriter stays usable after it.
  ///
  /// If several processes write, only the creator may call it, after it has accepted the receipts of all others. A
  /// process whose receipt is not accepted must not write any more.
  ///
  /// If the new model is one file, an old index with the same stem is removed, because it may hide the new file.
  /// Otherwise an old `stem.safetensors` is removed for this reason, whatever `remove_old_files` is. Other old
  /// files that cannot be removed are not an error: `safetensors verify` finds them. After the error
  /// replaced_not_durable, the new model is in place, and old files stay. Errors: those of Writer::commit();
  /// invalid_argument (the writer has joined); replace_failed (also if the old index cannot be removed, if something
  /// has appeared at the path of a new folder, or with EWOULDBLOCK if another writer has held the lock of the folder
  /// for ten minutes). If the index cannot be put in place, the new files are removed again.
  [[nodiscard]] SAFETENSORS_API Status commit() noexcept;

  /// Returns the names of the files in the folder, in the order of the layout. After commit(), these are the names that
  /// the index has. Before, they are the names of the layout. Error: writer_closed (a joined writer, a failed commit(),
  /// or the object was moved from).
  [[nodiscard]] SAFETENSORS_API Result<std::vector<std::string>> file_names() const noexcept;

  /// Returns the layout. The reference is valid as long as this object exists.
  [[nodiscard]] const CheckpointLayout& layout() const& noexcept { return layout_; }
  detail::GiveTheObjectANameFirst layout() const&& = delete;

 private:
  struct State;
  CheckpointWriter(const CheckpointLayout& layout, std::shared_ptr<State> state) noexcept
      : layout_(layout), state_(std::move(state)) {}
  CheckpointLayout layout_;
  // Only this object owns it. A shared_ptr needs no complete State to destroy it.
  std::shared_ptr<State> state_;
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
[[nodiscard]] SAFETENSORS_API Status save_checkpoint(PathView folder, Span<const NamedTensor> tensors,
                                                     const CheckpointLayoutOptions& layout = {},
                                                     const CheckpointWriteOptions& options = {}) noexcept;
[[nodiscard]] inline Status save_checkpoint(PathView folder, std::initializer_list<NamedTensor> tensors,
                                            const CheckpointLayoutOptions& layout = {},
                                            const CheckpointWriteOptions& options = {}) noexcept {
  return save_checkpoint(folder, Span<const NamedTensor>(tensors.begin(), tensors.size()), layout, options);
}
/// @}

/// Does the same with a layout that was made before. `tensors` must be exactly the tensors of the layout, in any order.
/// Errors: those above; not_found (a tensor is not in the layout), dtype_mismatch and shape_mismatch (the layout has
/// another dtype or shape), duplicate_name, incomplete_write (a tensor of the layout is missing).
[[nodiscard]] SAFETENSORS_API Status save_checkpoint(PathView folder, Span<const NamedTensor> tensors,
                                                     const CheckpointLayout& layout,
                                                     const CheckpointWriteOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
