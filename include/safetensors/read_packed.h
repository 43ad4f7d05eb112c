/// @file
/// Reads many tensors into one buffer, and returns a table of their offsets. This is what an engine does with a model:
/// it owns one block of memory and knows where each weight begins.
///
/// ```
/// Checkpoint model = Checkpoint::open("model").value();
/// Packed weights = read_packed(model.tensors(), {.alignment = 256}).value();  // one call, memory of the library
///
/// PackedLayout layout = PackedLayout::make(model.tensors(), {.alignment = 256}).value();  // or: your memory
/// Span<std::byte> memory = my_allocate(layout.nbytes());
/// Packed weights = read_packed(layout, memory).value();
/// ```
#pragma once

#include <safetensors/array.h>
#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <safetensors/shape.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// Orders of the tensors in a buffer.
enum class PackedOrder : std::uint8_t {
  /// File after file, and by offset within a file. Files come in the order in which the list of tensors first names
  /// them.
  /// The bytes are read from the first to the last, and into memory in the same order.
  file,
  /// The order of the list of tensors.
  given,
  /// By the bytes of the names.
  name,
};

/// Options of PackedLayout::make().
struct PackedOptions {
  /// Every tensor begins at a multiple of this number of bytes, and so does the buffer: a power of two from 1 to 4096.
  std::uint64_t alignment = 64;
  PackedOrder order = PackedOrder::file;  ///< order of the tensors in the buffer
  /// Dtype of every tensor in the buffer, see AddOptions::cast. nullopt: the dtypes of the tensors.
  std::optional<Dtype> cast = std::nullopt;
};

/// One row of the table: a tensor, and its range in the buffer.
struct PackedTensor {
  std::string name;  ///< may be any valid UTF-8, so use printable() to print it
  /// Dtype of the elements in the buffer. For a tensor of unknown dtype, it is U8, and `shape` is [nbytes].
  Dtype dtype = Dtype::U8;
  Shape shape;               ///< shape of the tensor
  std::uint64_t offset = 0;  ///< offset of the first byte in the buffer
  std::uint64_t nbytes = 0;  ///< size in bytes; it may be 0
};

namespace detail {
struct PackedTableState;
struct PackedLayoutState;
}  // namespace detail

/// The tensors of a buffer, in the order of their offsets. Their ranges do not overlap.
///
/// A table keeps no file open. Copies are cheap, because they share the rows. Call const functions from any thread.
class PackedTable {
 public:
  /// Makes an empty table.
  PackedTable() noexcept = default;
  /// Returns the rows. The span is valid as long as any copy of this table exists.
  [[nodiscard]] SAFETENSORS_API Span<const PackedTensor> tensors() const& noexcept;
  detail::GiveTheObjectANameFirst tensors() const&& = delete;
  /// Returns the row of the tensor with this name, or nullptr. The pointer is valid as long as tensors(). Takes the
  /// logarithm of the number of rows.
  [[nodiscard]] SAFETENSORS_API const PackedTensor* find(std::string_view name) const& noexcept;
  detail::GiveTheObjectANameFirst find(std::string_view name) const&& = delete;
  /// Returns the size of the buffer in bytes: the end of the last tensor.
  [[nodiscard]] SAFETENSORS_API std::uint64_t nbytes() const noexcept;
  /// Returns the alignment of the buffer and of each tensor in bytes.
  [[nodiscard]] SAFETENSORS_API std::uint64_t alignment() const noexcept;

 private:
  friend class PackedLayout;
  explicit PackedTable(std::shared_ptr<const detail::PackedTableState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const detail::PackedTableState> state_;
};

struct Packed;

/// Where each tensor goes in one buffer, before anything is read. It tells how much memory to allocate.
///
/// A layout keeps the files of its tensors open, and you may read it several times. Copies are cheap. Call const
/// functions from any thread.
class PackedLayout {
 public:
  /// @{
  /// Places all tensors of a File or a Checkpoint, or the tensors of a list, one behind the other. Reads nothing.
  ///
  /// The list may have tensors of several files. It may be empty. The table holds one row per tensor, and needs about
  /// 500 bytes per tensor together with the layout.
  ///
  /// Errors:
  /// - invalid_argument: the alignment is not a power of two from 1 to 4096;
  /// - duplicate_name: two tensors have one name; the message has the name;
  /// - size_overflow: the buffer would have more than 2^64-1 bytes; the error names the first tensor that has no place;
  /// - dtype_mismatch: the cast is not possible; the error names the tensor;
  /// - out_of_memory.
  [[nodiscard]] static SAFETENSORS_API Result<PackedLayout> make(const Tensors& tensors,
                                                                 const PackedOptions& options = {}) noexcept;
  [[nodiscard]] static SAFETENSORS_API Result<PackedLayout> make(Span<const Tensor> tensors,
                                                                 const PackedOptions& options = {}) noexcept;
  /// @}

  /// Returns the table of the buffer. It may outlive the layout. The reference is valid as long as this object exists.
  [[nodiscard]] SAFETENSORS_API const PackedTable& table() const& noexcept;
  detail::GiveTheObjectANameFirst table() const&& = delete;
  /// Returns the size of the buffer in bytes: the end of the last tensor.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return table().nbytes(); }

 private:
  friend SAFETENSORS_API Result<Packed> read_packed(const PackedLayout&, Span<std::byte>, const ReadOptions&) noexcept;
  explicit PackedLayout(std::shared_ptr<const detail::PackedLayoutState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const detail::PackedLayoutState> state_;
};

/// Many tensors in one buffer. It keeps no file open.
struct Packed {
  /// The buffer: dtype U8, shape [table.nbytes()]. Memory of the library has MemoryKind::owned, and the last copy of an
  /// Array over it releases all of it at once. Memory of the caller has MemoryKind::borrowed, and the caller keeps it
  /// alive.
  Array memory;
  PackedTable table;  ///< where the tensors are
  ReadReport report;  ///< bytes, times and fallbacks of the read

  /// Returns one tensor as an Array that shares the buffer. Error: not_found.
  [[nodiscard]] SAFETENSORS_API Result<Array> array(std::string_view name) const noexcept;
};

/// Reads the tensors of a layout into one buffer, with several threads.
///
/// `destination` is memory of the caller. It must have at least layout.nbytes() bytes, and its address must be a
/// multiple of the alignment. The bytes after the last tensor stay as they are. If `destination` is empty, the buffer
/// is new memory in huge pages. It is much faster to fill than memory from malloc(), because the system provides 2 MiB
/// per page fault instead of 4 KiB.
///
/// The bytes between two tensors become 0. On failure, the contents of the buffer are undefined.
///
/// The options work as in ReadPlan::execute(). The arrays that ReadOptions::on_reserved gets have the order of
/// the table. These arrays do not keep the buffer alive.
///
/// Call it from any thread. Several calls may use one layout at the same time, with different buffers.
/// Errors: buffer_size (the destination is too small; the message has both sizes), invalid_argument (the address), and
/// those of ReadPlan::execute().
[[nodiscard]] SAFETENSORS_API Result<Packed> read_packed(const PackedLayout& layout, Span<std::byte> destination = {},
                                                         const ReadOptions& options = {}) noexcept;

/// @{
/// Reads all tensors of a File or a Checkpoint, or the tensors of a list, into one new buffer: PackedLayout::make() and
/// read_packed() in one call. Errors: those of both.
[[nodiscard]] inline Result<Packed> read_packed(const Tensors& tensors, const PackedOptions& options = {},
                                                const ReadOptions& read = {}) noexcept {
  Result<PackedLayout> layout = PackedLayout::make(tensors, options);
  if (!layout) return std::move(layout).error();
  return read_packed(*layout, {}, read);
}
[[nodiscard]] inline Result<Packed> read_packed(Span<const Tensor> tensors, const PackedOptions& options = {},
                                                const ReadOptions& read = {}) noexcept {
  Result<PackedLayout> layout = PackedLayout::make(tensors, options);
  if (!layout) return std::move(layout).error();
  return read_packed(*layout, {}, read);
}
/// @}

}  // namespace v0
}  // namespace safetensors
