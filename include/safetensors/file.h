/// @file
/// Opens files and gives access to their tensors. Opening a file checks its header. The library reads the bytes of a
/// tensor only when you ask for them.
#pragma once

#include <safetensors/array.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/path.h>
#include <safetensors/slice.h>
#include <safetensors/source.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// Decides whether view() maps a file or reads it.
enum class Access : std::uint8_t {
  /// open() and from_fd() decide: `read` on network and user-space file systems and on Windows, where a map keeps other
  /// programs from replacing the file. Otherwise `map`.
  automatic,
  /// view() maps the file. If the file becomes shorter, access to the missing bytes of a map raises SIGBUS. For a File
  /// from from_memory() or from_source(), view() returns the memory of the caller instead of a map.
  map,
  /// view() reads into new memory, and nothing else maps the file either. If the file becomes shorter, reading returns
  /// the error file_truncated.
  read,
};

/// Options of File::open(), File::from_fd() and Checkpoint::open().
struct OpenOptions {
  Access access = Access::automatic;  ///< decides whether view() maps the file
  ParseOptions parse = {};            ///< options for the header of each file
  /// Number of threads that read headers, including the calling thread. 0: as many as are useful, at most 16.
  unsigned threads = 0;
};

/// The memory that you request from view(). Array::memory() says which memory you got.
enum class Map : std::uint8_t {
  /// Read-only memory, which is shared with all readers of the file: a map of the file, or the memory of a Source.
  /// Owned memory with Access::read, if the system refuses the map, or if the Source has no such memory.
  shared,
  /// Writable memory of your own: a map that the system copies on write, so the file never changes. Owned memory with
  /// Access::read, if the system refuses the map, or if the File is from from_memory() or from_source(). On a local
  /// file system, Linux then reads twice as far around each access.
  copy_on_write,
};

namespace detail {
struct FileState;
struct CheckpointState;
}  // namespace detail
class Tensor;
class File;
class Checkpoint;

/// A view of the tensors of a File or a Checkpoint. Their order is file after file, and by offset within a file.
///
/// The view is valid as long as any copy of its File or Checkpoint exists. The Tensors that it returns keep their files
/// open, so they may outlive the File and the Checkpoint. Call const functions from any thread.
class Tensors {
 public:
  /// A forward iterator over Tensor.
  using iterator = detail::IndexIterator<Tensors>;

  /// Makes an empty view.
  Tensors() noexcept = default;
  /// Returns the number of tensors.
  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;
  /// Returns true when size() is 0.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Returns the tensor at this index. `index` must be below size().
  [[nodiscard]] SAFETENSORS_API Tensor operator[](std::size_t index) const noexcept;
  /// @{
  /// Iterates over the tensors.
  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, size()}; }
  /// @}

 private:
  friend class File;
  friend class Checkpoint;
  explicit Tensors(const detail::FileState* file) noexcept : file_(file) {}
  explicit Tensors(const detail::CheckpointState* checkpoint) noexcept : checkpoint_(checkpoint) {}
  const detail::FileState* file_ = nullptr;
  const detail::CheckpointState* checkpoint_ = nullptr;
};

namespace detail {  // its comments belong to File and Checkpoint
/// The functions that File and Checkpoint have in common. Generic code can use either of them in the same way.
template <class Set>
class TensorSet {
 public:
  /// Returns the number of tensors.
  [[nodiscard]] std::size_t size() const noexcept { return set().tensors().size(); }
  /// Returns true when size() is 0.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Returns an iterator at the first tensor, in the order of tensors(). It is valid as long as any copy of this object
  /// exists.
  [[nodiscard]] auto begin() const noexcept { return set().tensors().begin(); }
  /// Returns the iterator after the last tensor. It is valid as long as any copy of this object exists.
  [[nodiscard]] auto end() const noexcept { return set().tensors().end(); }
  /// Returns the names, in the order of tensors(). They are valid as long as any copy of this object exists. May throw
  /// `std::bad_alloc`.
  [[nodiscard]] std::vector<std::string_view> names() const& {
    std::vector<std::string_view> names;
    names.reserve(size());
    for (const auto& tensor : *this) names.push_back(tensor.name());
    return names;
  }
  GiveTheObjectANameFirst names() const&& = delete;
  /// Returns the tensor with this name. Throws Exception if no tensor has this name. tensor() returns a Result instead.
  [[nodiscard]] auto operator[](std::string_view name) const { return set().tensor(name).value(); }
  /// Returns the elements of a tensor as a typed view, without a copy if possible. The view keeps the memory alive.
  /// Errors: not_found, and those of Tensor::get().
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> get(std::string_view name) const noexcept {
    auto tensor = set().tensor(name);
    if (!tensor) return std::move(tensor).error();
    return tensor->template get<T>();
  }
  /// Does the same for a tensor that must have this shape. Errors: not_found, and those of Tensor::get().
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> get(std::string_view name, const Shape& shape) const noexcept {
    auto tensor = set().tensor(name);
    if (!tensor) return std::move(tensor).error();
    return tensor->template get<T>(shape);
  }

 private:
  friend class v0::File;
  friend class v0::Checkpoint;
  TensorSet() noexcept = default;
  [[nodiscard]] const Set& set() const noexcept { return static_cast<const Set&>(*this); }
};
}  // namespace detail

/// A safetensors file with a checked header.
///
/// Copies are cheap, because they share the open file. Tensors and Arrays may outlive the File. Call const functions
/// from any thread.
class File : public detail::TensorSet<File> {
 public:
  /// Opens a file, and reads and checks its header. open() reads nothing else. It never waits for a FIFO or a device.
  ///
  /// Errors: open_failed (with os_error), not_regular_file, read_failed, file_truncated, out_of_memory, cancelled, and
  /// all errors of rules 1 to 10.
  static SAFETENSORS_API Result<File> open(PathView path, const OpenOptions& options = {}) noexcept;

  /// Opens a file through a descriptor. The File uses a duplicate, so you may close `descriptor` after the call. The
  /// library neither uses nor moves the file position of the descriptor.
  /// Errors: those of open().
  static SAFETENSORS_API Result<File> from_fd(int descriptor, const OpenOptions& options = {}) noexcept;

  /// Opens a file that is in memory. `bytes` is the whole file, and `owner` keeps these bytes alive. access() is `map`:
  /// view() with Map::shared returns a range of `bytes`.
  /// Errors: out_of_memory, cancelled, and all errors of rules 1 to 10.
  static SAFETENSORS_API Result<File> from_memory(Span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                                  const ParseOptions& options = {}) noexcept;
  // The bytes of a temporary container would be gone when this call returns.
  template <class Bytes, class = decltype(std::declval<const Bytes&>().get_allocator()),
            std::enable_if_t<!std::is_reference_v<Bytes> && std::is_convertible_v<const Bytes&, Span<const std::byte>>,
                             int> = 0>
  static detail::KeepTheElementsInAVariable from_memory(Bytes&& bytes, std::shared_ptr<const void> owner,
                                                        const ParseOptions& options = {}) = delete;

  /// Opens a file that is in a Source of the caller. access() is `map` if Source::memory() returns the whole file,
  /// otherwise `read`. An exception of the Source becomes an error, here and in all calls that read.
  /// Errors: those of the Source, out_of_memory, cancelled, and all errors of rules 1 to 10.
  static SAFETENSORS_API Result<File> from_source(std::shared_ptr<const Source> source,
                                                  const ParseOptions& options = {}) noexcept;

  /// Returns the header. The reference is valid as long as any copy of this File exists.
  [[nodiscard]] SAFETENSORS_API const Header& header() const& noexcept;
  detail::GiveTheObjectANameFirst header() const&& = delete;

  /// Returns the tensors, in the order of their bytes in the file. The view is valid as long as any copy of this File
  /// exists.
  [[nodiscard]] Tensors tensors() const& noexcept { return Tensors(state_.get()); }
  detail::GiveTheObjectANameFirst tensors() const&& = delete;
  /// Returns true when there is a tensor with this name.
  [[nodiscard]] bool contains(std::string_view name) const noexcept { return header().find(name) != nullptr; }
  /// Returns the metadata of the header. The view is valid as long as any copy of this File exists.
  [[nodiscard]] Metadata metadata() const& noexcept { return header().metadata(); }
  detail::GiveTheObjectANameFirst metadata() const&& = delete;
  /// Returns the tensor with this name. Error: not_found; the message has the most similar name, if there is one.
  [[nodiscard]] SAFETENSORS_API Result<Tensor> tensor(std::string_view name) const noexcept;

  /// Returns the bytes of all tensors as one Array of dtype U8. In this Array, the bytes of a Tensor `t` are the range
  /// [t.info().begin, t.info().end).
  ///
  /// A map of all tensors costs as much as a map of one. If Tensor::view() reads into owned memory, then this function
  /// reads all tensors into owned memory, with several threads.
  /// Errors: those of Tensor::view().
  [[nodiscard]] SAFETENSORS_API Result<Array> view(Map map = Map::shared) const noexcept;

  /// Returns `map` or `read`, never `automatic`. The value does not change while the File is open.
  [[nodiscard]] SAFETENSORS_API Access access() const noexcept;
  /// Returns the path given to open(). It is empty for from_fd(), from_memory() and from_source(). The reference is
  /// valid as long as any copy of this File exists.
  [[nodiscard]] SAFETENSORS_API const std::string& path() const& noexcept;
  detail::GiveTheObjectANameFirst path() const&& = delete;
  /// Returns the source of the bytes of the file. Its offset 0 is the first byte of the file, before the header. The
  /// reference is valid as long as any copy of this File exists. For from_source(), this object calls the Source of the
  /// caller as the File does: it does not throw, and it keeps to Source::concurrent() and Source::request_bytes().
  [[nodiscard]] SAFETENSORS_API const Source& source() const& noexcept;
  detail::GiveTheObjectANameFirst source() const&& = delete;

 private:
  friend class Tensor;
  friend struct detail::Access<File>;
  explicit File(std::shared_ptr<const detail::FileState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const detail::FileState> state_;
};

/// One tensor of a File, without its bytes. view(), get() and read() return the bytes.
///
/// A Tensor keeps the open file alive. Copies are cheap. Call const functions from any thread.
class Tensor {
 public:
  /// Returns the entry of the tensor in the header. The reference is valid as long as any copy of this Tensor or of its
  /// File exists.
  [[nodiscard]] const TensorInfo& info() const& noexcept { return *info_; }
  detail::GiveTheObjectANameFirst info() const&& = delete;
  /// Returns the name. It may be any valid UTF-8, so use printable() to print it. It is valid as long as info().
  [[nodiscard]] std::string_view name() const& noexcept { return info_->name; }
  detail::GiveTheObjectANameFirst name() const&& = delete;
  /// Returns the dtype of the elements.
  [[nodiscard]] Dtype dtype() const noexcept { return info_->dtype; }
  /// Returns the shape. It is valid as long as info().
  [[nodiscard]] ShapeView shape() const& noexcept { return info_->shape; }
  detail::GiveTheObjectANameFirst shape() const&& = delete;
  /// Returns the number of elements.
  [[nodiscard]] std::uint64_t numel() const noexcept { return info_->numel(); }
  /// Returns the size in bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return info_->nbytes(); }

  /// Returns the tensor, or a slice of it, without a copy, if possible. The slice must be contiguous: see
  /// ResolvedSlice::contiguous(). For example, a range of rows is contiguous.
  ///
  /// If `file().access()` is `map`, the Array is a map of the file, or memory of a Source. Otherwise, this function
  /// reads the tensor into owned memory. It also reads the tensor in these cases:
  /// - The system refuses the map. So map_failed never occurs.
  /// - The Source has no memory with these bytes.
  /// - `map` is Map::copy_on_write, and the File is from from_memory() or from_source().
  ///
  /// Array::memory() says which memory the Array has.
  /// Errors: slice_not_contiguous, and those of read().
  [[nodiscard]] SAFETENSORS_API Result<Array> view(const Slice& slice = {}, Map map = Map::shared) const noexcept;

  /// @{
  /// Returns the elements as a typed view, without a copy if possible. The view keeps the memory alive. With `shape`,
  /// the tensor must have this shape.
  ///
  /// If the memory of view() is not aligned for T, this function reads the tensor into new memory.
  /// Errors: dtype_mismatch, shape_mismatch, unsupported (see Array::as()), and those of read().
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> get() const noexcept {
    return typed<T>(nullptr);
  }
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> get(const Shape& shape) const noexcept {
    return typed<T>(&shape);
  }
  /// @}

  /// Reads the tensor, or a slice of it, into new memory that is aligned to 64 bytes.
  /// Errors: out_of_memory, read_failed, file_truncated, and those of Slice::resolve().
  [[nodiscard]] SAFETENSORS_API Result<Array> read(const Slice& slice = {}) const noexcept;

  /// Reads the tensor, or a slice of it, as elements of type T.
  ///
  /// If ElementOf<T> accepts the dtype of the tensor, the bits of the elements are copied. Otherwise the elements are
  /// cast to the dtype of T. Such a cast is possible between floats, and between integers: see ReadPlan::add().
  /// On a big-endian machine, swap the bytes of the result.
  /// Errors: dtype_mismatch, value_out_of_range, and those of read().
  template <class T>
  [[nodiscard]] Result<std::vector<T>> read_as(const Slice& slice = {}) const noexcept;

  /// Reads the tensor, or a slice of it, into memory of the caller. The destination must have exactly the size of the
  /// result.
  ///
  /// A piece of a slice is a contiguous run of its bytes. If a piece has 64 KiB or more, it is read straight into the
  /// destination. Shorter pieces may be read together with the gaps between them, through a bounce buffer of 1 MiB.
  /// Then the call reads up to a quarter more bytes than the slice has. With pieces of less than 512 bytes, it may read
  /// even more. The call uses only positioned reads (`pread`), and several threads may call it at the same time.
  /// Errors: buffer_size, and those of read().
  [[nodiscard]] SAFETENSORS_API Status read_into(Span<std::byte> destination, const Slice& slice = {}) const noexcept;

  /// Returns the File that holds this tensor.
  [[nodiscard]] SAFETENSORS_API File file() const noexcept;

 private:
  friend class File;
  friend class Tensors;
  friend struct detail::Access<Tensor>;
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> typed(const Shape* shape) const noexcept;
  [[nodiscard]] SAFETENSORS_API Error describe(Error error) const noexcept;
  // Reads the elements of a slice into the memory that resize(elements, count) returns, and casts them if the type does
  // not accept the dtype. resize() may throw std::bad_alloc and std::length_error.
  [[nodiscard]] SAFETENSORS_API Status read_elements(const detail::ElementType& type, const Slice& slice,
                                                     Span<std::byte> (*resize)(void* elements, std::size_t count),
                                                     void* elements) const noexcept;
  Tensor(std::shared_ptr<const detail::FileState> state, const TensorInfo* info) noexcept
      : state_(std::move(state)), info_(info) {}
  std::shared_ptr<const detail::FileState> state_;
  const TensorInfo* info_;
};

template <class T>
Result<TypedView<const T>> Tensor::typed(const Shape* shape) const noexcept {
  const auto look = [&](Result<Array> array) -> Result<TypedView<const T>> {
    if (!array) return std::move(array).error();
    return shape == nullptr ? array->template get<T>() : array->template get<T>(*shape);
  };
  Result<TypedView<const T>> found = look(view());
  if (!found && found.error().code == Errc::misaligned_memory) found = look(read());
  if (!found && found.error().path.empty()) return describe(std::move(found).error());
  return found;
}

template <class T>
Result<std::vector<T>> Tensor::read_as(const Slice& slice) const noexcept {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory: use std::uint8_t");
  std::vector<T> elements;
  const auto resize = [](void* vector, std::size_t count) {
    static_cast<std::vector<T>*>(vector)->resize(count);
    return as_writable_bytes(Span<T>(*static_cast<std::vector<T>*>(vector)));
  };
  Status status = read_elements(detail::element_type<T>(dtype()), slice, resize, &elements);
  if (!status) return std::move(status).error();
  return elements;
}

}  // namespace v0
}  // namespace safetensors
