/// @file
/// A file with a checked header, and its tensors. The library reads the bytes of a tensor only when you ask for them.
#pragma once

#include <safetensors/array.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/slice.h>
#include <safetensors/source.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace safetensors {
inline namespace v0 {

/// How File reads tensors.
enum class Access : std::uint8_t {
  automatic,  ///< decided when the file is opened: `read` on network and user-space file systems, otherwise `map`
  map,        ///< view() maps the file; access to a map raises SIGBUS if the file becomes shorter
  read,       ///< never maps; if the file becomes shorter, reading returns the error file_truncated
};

/// How a File is opened.
struct OpenOptions {
  Access access = Access::automatic;  ///< how tensors are read
  ParseOptions parse = {};            ///< how the header is read
};

/// The kind of memory that view() returns.
enum class Map : std::uint8_t {
  shared,         ///< read-only, shared with every reader of the file
  copy_on_write,  ///< writable and private; the file never changes; owned memory if the system refuses the map
};

namespace detail {
struct FileState;
}  // namespace detail
class Tensor;

/// A safetensors file with a checked header.
///
/// Copies are cheap, because they share the open file. Tensors and Arrays may outlive the File. Call const functions
/// from any thread.
class File {
 public:
  /// Opens a file, and reads and checks its header. It reads nothing else. It never waits for a FIFO or a device.
  ///
  /// Errors: open_failed (with os_error), not_regular_file, read_failed, file_truncated, out_of_memory, cancelled, and
  /// all errors of rules 1 to 10.
  static SAFETENSORS_API Result<File> open(std::string_view path, const OpenOptions& options = {}) noexcept;

  /// Opens a file through a descriptor. Duplicates the descriptor: the caller keeps their own. Neither uses nor moves
  /// its file position.
  /// Errors: as open().
  static SAFETENSORS_API Result<File> from_fd(int descriptor, const OpenOptions& options = {}) noexcept;

  /// Opens a file that is in memory. `bytes` is the whole file, and `owner` keeps it alive. view() points into it.
  /// Errors: out_of_memory, cancelled, and all errors of rules 1 to 10.
  static SAFETENSORS_API Result<File> from_memory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                                  const ParseOptions& options = {}) noexcept;

  /// Opens a file that is in a Source of the caller. access() is `read`, unless the Source provides memory.
  /// Errors: those of the Source, out_of_memory, cancelled, and all errors of rules 1 to 10.
  static SAFETENSORS_API Result<File> from_source(std::shared_ptr<const Source> source,
                                                  const ParseOptions& options = {}) noexcept;

  /// Returns the header. The reference is valid as long as any copy of this File.
  [[nodiscard]] SAFETENSORS_API const Header& header() const& noexcept;
  const Header& header() const&& = delete;

  /// Returns the tensor with this name. Error: not_found; the message has the most similar name, if there is one.
  [[nodiscard]] SAFETENSORS_API Result<Tensor> tensor(std::string_view name) const noexcept;

  /// Returns the bytes of all tensors as one Array of dtype U8. Tensor t is the range [t.begin, t.end) of it.
  ///
  /// One call maps many tensors at the cost of one. In the cases where Tensor::view() reads into owned memory, this
  /// function does so too, with several threads.
  /// Errors: as Tensor::view().
  [[nodiscard]] SAFETENSORS_API Result<Array> view(Map map = Map::shared) const noexcept;

  /// Returns `map` or `read`, as decided when the file was opened. It never returns `automatic`.
  [[nodiscard]] SAFETENSORS_API Access access() const noexcept;
  /// Returns the path given to open(). It is empty for from_fd(), from_memory() and from_source(). The reference is
  /// valid as long as any copy of this File.
  [[nodiscard]] SAFETENSORS_API const std::string& path() const& noexcept;
  const std::string& path() const&& = delete;
  /// Returns the source of the bytes of the file, including the header. The reference is valid as long as any copy of
  /// this File.
  [[nodiscard]] SAFETENSORS_API const Source& source() const& noexcept;
  const Source& source() const&& = delete;

 private:
  friend class Tensor;
  friend struct detail::Access<File>;
  explicit File(std::shared_ptr<const detail::FileState> state) noexcept;
  std::shared_ptr<const detail::FileState> state_;
};

/// One tensor of a File, without its bytes. View or read it to get them.
///
/// A Tensor keeps the open file alive. Copies are cheap. Call const functions from any thread.
class Tensor {
 public:
  /// Returns the entry in the header. It is valid as long as any copy of this Tensor or its File.
  [[nodiscard]] const TensorInfo& info() const& noexcept { return *info_; }
  const TensorInfo& info() const&& = delete;
  /// Returns the name. It may hold any valid UTF-8: show it with printable(). It is valid as info().
  [[nodiscard]] std::string_view name() const& noexcept { return info_->name; }
  std::string_view name() const&& = delete;
  /// Returns the dtype of the elements.
  [[nodiscard]] Dtype dtype() const noexcept { return info_->dtype; }
  /// Returns the shape. It is valid as info().
  [[nodiscard]] ShapeView shape() const& noexcept { return info_->shape; }
  ShapeView shape() const&& = delete;
  /// Returns the size in bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return info_->nbytes(); }

  /// Returns the tensor without a copy, if possible.
  ///
  /// The Array is a view when `file().access()` is `map` or when the Source provides memory. Otherwise the tensor is
  /// read into owned memory. Array::memory() tells which case applies. If the system refuses the map, the tensor is
  /// read. Therefore map_failed never occurs.
  /// Errors: as read().
  [[nodiscard]] SAFETENSORS_API Result<Array> view(Map map = Map::shared) const noexcept;

  /// @{
  /// Reads the tensor, or a slice of it, into new memory that is aligned to 64 bytes.
  /// Errors: out_of_memory, read_failed, file_truncated, and those of Slice::resolve().
  [[nodiscard]] SAFETENSORS_API Result<Array> read() const noexcept;
  [[nodiscard]] SAFETENSORS_API Result<Array> read(const Slice& slice) const noexcept;
  /// @}

  /// @{
  /// Reads the tensor, or a slice of it, into memory of the caller. The destination must have exactly the size of the
  /// result.
  ///
  /// In a slice, runs of 64 KiB and more are read exactly. Shorter runs go through a bounce buffer of at most 1 MiB.
  /// With this buffer, the call may read up to a quarter more bytes than the slice has, or more when runs are shorter
  /// than 512 bytes. Uses positioned reads only. Thread-safe.
  /// Errors: buffer_size, and those of read().
  [[nodiscard]] SAFETENSORS_API Status read_into(std::span<std::byte> destination) const noexcept;
  [[nodiscard]] SAFETENSORS_API Status read_into(const Slice& slice, std::span<std::byte> destination) const noexcept;
  /// @}

  /// Returns the File of this tensor.
  [[nodiscard]] SAFETENSORS_API File file() const noexcept;

 private:
  friend class File;
  friend struct detail::Access<Tensor>;
  Tensor(std::shared_ptr<const detail::FileState> state, const TensorInfo* info) noexcept
      : state_(std::move(state)), info_(info) {}
  std::shared_ptr<const detail::FileState> state_;
  const TensorInfo* info_;
};

}  // namespace v0
}  // namespace safetensors
