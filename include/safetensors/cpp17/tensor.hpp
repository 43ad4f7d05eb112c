/// @file
/// A part of the C++17 interface: Slice, Array and Tensor. Include safetensors.hpp instead of this header, and read
/// there about errors, lifetimes and threads.
#pragma once

#include <safetensors/c.h>
#include <safetensors/cpp17/error.hpp>
#include <safetensors/cpp17/values.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

namespace safetensors17 {
inline namespace v0 {

/// A part of a tensor: an entry per dimension, outermost first. Dimensions without an entry are taken completely. It
/// may be used for any tensor.
class Slice {
 public:
  /// Takes ownership of a handle of the C interface.
  explicit Slice(safetensors_slice* raw) noexcept : handle_(raw) {}
  /// Makes a slice: `Slice::of({Dim::range(0, 10), Dim::all()})`.
  [[nodiscard]] static Result<Slice> of(std::initializer_list<Dim> dims) noexcept {
    return of(View<const Dim>(dims.begin(), dims.size()));
  }
  /// Makes a slice of entries in memory.
  [[nodiscard]] static Result<Slice> of(View<const Dim> dims) noexcept {
    static_assert(sizeof(Dim) == sizeof(safetensors_dim_slice), "a Dim is the struct of C");
    Error error;
    safetensors_slice* raw = nullptr;
    if (safetensors_slice_create(dims.data(), dims.size(), &raw, &error.c())) return error;
    return Slice(raw);
  }
  /// Parses the text of a NumPy index, such as "1:3,:,-1". Error: SLICE_SYNTAX.
  [[nodiscard]] static Result<Slice> parse(std::string_view text) noexcept {
    Error error;
    safetensors_slice* raw = nullptr;
    if (safetensors_slice_parse(text.data(), text.size(), &raw, &error.c())) return error;
    return Slice(raw);
  }
  /// Takes part `rank` of `world` nearly equal parts of the dimension `dim`, and the other dimensions completely. A
  /// negative `dim` counts from the end.
  [[nodiscard]] static Result<Slice> shard(std::int64_t dim, std::uint64_t rank, std::uint64_t world) noexcept {
    Error error;
    safetensors_slice* raw = nullptr;
    if (safetensors_slice_shard(dim, rank, world, &raw, &error.c())) return error;
    return Slice(raw);
  }
  /// Returns the handle of the C interface, which stays owned by this object. NULL if it was moved from.
  [[nodiscard]] const safetensors_slice* c() const noexcept { return handle_.get(); }
  /// @cond
  // In C, NULL is the whole tensor. A Slice that was moved from is an error instead.
  [[nodiscard]] Status check() const noexcept {
    if (c()) return {};
    return Error(SAFETENSORS_ERROR_INVALID_ARGUMENT, "the slice was moved from");
  }
  /// @endcond

 private:
  detail::Handle<safetensors_slice> handle_;
};

/// A tensor in memory: elements in C order, little-endian, without gaps. F4 and F6 are packed. The memory is a map of
/// the file, memory of its own, or memory of the caller, as memory() says. It may outlive its Tensor and its File.
///
/// Threads may read the elements at the same time. If a thread writes through mutable_data(), do your own locking.
class Array {
 public:
  /// Takes ownership of a handle of the C interface.
  explicit Array(safetensors_array* raw) noexcept : handle_(raw) {}
  /// Returns the elements, or NULL if there are none. They are valid as long as the Array or the object to which it was
  /// moved, and may be misaligned: as() checks that. After a read to a device, there are none.
  [[nodiscard]] const void* data() const& noexcept { return safetensors_array_data(c()); }
  detail::GiveTheObjectANameFirst data() const&& = delete;
  /// Returns the size in bytes.
  [[nodiscard]] std::size_t nbytes() const noexcept { return info().nbytes; }
  /// Returns the type of the elements.
  [[nodiscard]] Dtype dtype() const noexcept { return static_cast<Dtype>(info().dtype); }
  /// Returns the dimensions. They are valid as long as data().
  [[nodiscard]] Dims shape() const& noexcept {
    const safetensors_array_info found = info();
    return {found.dims, found.rank};
  }
  detail::GiveTheObjectANameFirst shape() const&& = delete;
  /// Returns the kind of the memory: one of `SAFETENSORS_MEMORY_...`.
  [[nodiscard]] std::int32_t memory() const noexcept { return info().memory; }
  /// Returns the elements as type T, without a copy. They are valid as long as data().
  /// Errors: DTYPE_MISMATCH (see ElementOf); MISALIGNED_MEMORY (only in a view, or in memory of the caller:
  /// Tensor::read() returns aligned memory); UNSUPPORTED (a big-endian machine, and elements of several bytes).
  template <class T>
  [[nodiscard]] Result<View<const T>> as() const& noexcept {
    static_assert(std::is_trivially_copyable_v<T>, "elements are bytes of a file");
    const safetensors_array_info found = info();
    const Dtype dtype = static_cast<Dtype>(found.dtype);
    Error error;
    const void* elements = nullptr;
    std::size_t count = 0;
    const Dtype wanted = ElementOf<T>::accepts(dtype) ? dtype : ElementOf<T>::dtype;
    if (safetensors_array_as(c(), static_cast<safetensors_dtype>(wanted), &elements, &count, &error.c())) return error;
    if (count * sizeof(T) != found.nbytes)
      return Error(SAFETENSORS_ERROR_DTYPE_MISMATCH, "the type has another size than the elements of the dtype");
    if (reinterpret_cast<std::uintptr_t>(elements) % alignof(T) != 0)
      return Error(SAFETENSORS_ERROR_MISALIGNED_MEMORY, "the elements are not aligned for the type");
    return View<const T>(static_cast<const T*>(elements), count);
  }
  template <class T>
  detail::GiveTheObjectANameFirst as() const&& = delete;
  /// Returns the memory for writing. It is valid as long as data(). Error: NOT_WRITABLE.
  [[nodiscard]] Result<void*> mutable_data() & noexcept {
    Error error;
    void* memory = nullptr;
    std::size_t size = 0;
    if (safetensors_array_mutable_data(handle_.get(), &memory, &size, &error.c())) return error;
    return memory;
  }
  /// Loads the pages of `size` bytes at `offset` of a map, so that later access does not wait. Does nothing if the
  /// memory is not a map. Errors: OUT_OF_MEMORY, READ_FAILED.
  Status prefault(std::uint64_t offset, std::uint64_t size) const noexcept {
    Error error;
    (void)safetensors_array_prefault(c(), offset, size, &error.c());
    return error;
  }
  /// Returns the handle of the C interface, which stays owned by this object. NULL if it was moved from.
  [[nodiscard]] const safetensors_array* c() const noexcept { return handle_.get(); }

 private:
  [[nodiscard]] safetensors_array_info info() const noexcept {
    safetensors_array_info found = SAFETENSORS_ARRAY_INFO_INIT;
    (void)safetensors_array_get_info(c(), &found, nullptr);
    return found;
  }

  detail::Handle<safetensors_array> handle_;
};

/// One tensor of a file, without its bytes. It keeps the open file alive. All functions are const.
class Tensor {
 public:
  /// Takes ownership of a handle of the C interface.
  explicit Tensor(safetensors_tensor* raw) noexcept : handle_(raw) {}
  /// Returns the entry in the header.
  [[nodiscard]] TensorInfo info() const& noexcept {
    safetensors_tensor_info found = SAFETENSORS_TENSOR_INFO_INIT;
    (void)safetensors_tensor_get_info(c(), &found, nullptr);
    return TensorInfo(found);
  }
  detail::GiveTheObjectANameFirst info() const&& = delete;

  /// Returns the tensor without a copy, if possible. `map` is SAFETENSORS_MAP_SHARED or SAFETENSORS_MAP_COPY_ON_WRITE,
  /// which gives writable memory and leaves the file unchanged.
  ///
  /// The memory is a map of the file. It is new memory if the file was opened with access `read`, which is the default
  /// on network file systems, or if the system refuses the map. If another process makes the file shorter, access to
  /// the missing bytes of a map raises SIGBUS. Errors: those of read().
  [[nodiscard]] Result<Array> view(std::int32_t map = SAFETENSORS_MAP_SHARED) const noexcept {
    Error error;
    safetensors_array* raw = nullptr;
    if (safetensors_tensor_view(c(), map, &raw, &error.c())) return error;
    return Array(raw);
  }
  /// @{
  /// Reads the tensor, or a slice of it, into new memory that is aligned to 64 bytes.
  /// Errors: READ_FAILED, FILE_TRUNCATED, those of a source; SLICE_INDEX, SLICE_STEP, SLICE_RANK, SLICE_BITS;
  /// DTYPE_MISMATCH (a slice of an unknown dtype).
  [[nodiscard]] Result<Array> read() const noexcept { return read_any(nullptr); }
  [[nodiscard]] Result<Array> read(const Slice& slice) const noexcept {
    if (Status status = slice.check(); !status) return status.error();
    return read_any(slice.c());
  }
  /// @}
  /// @{
  /// Reads the tensor, or a slice of it, into memory of the caller. `size`, in bytes, must be exactly the size of the
  /// result. Errors: BUFFER_SIZE, and those of read().
  Status read_into(void* memory, std::size_t size) const noexcept {
    Error error;
    (void)safetensors_tensor_read_into(c(), nullptr, memory, size, &error.c());
    return error;
  }
  Status read_into(void* memory, std::size_t size, const Slice& slice) const noexcept {
    if (Status status = slice.check(); !status) return status;
    Error error;
    (void)safetensors_tensor_read_into(c(), slice.c(), memory, size, &error.c());
    return error;
  }
  /// @}
  /// @{
  /// Reads the tensor, or a slice of it, as another dtype, into new memory. To cast into memory of the caller, use a
  /// ReadPlan. Errors: DTYPE_MISMATCH (this cast is not possible), VALUE_OUT_OF_RANGE, and those of read().
  [[nodiscard]] Result<Array> read_as(Dtype dtype) const noexcept;
  [[nodiscard]] Result<Array> read_as(Dtype dtype, const Slice& slice) const noexcept;
  /// @}
  /// Returns the size in bytes of the result of read(slice). Errors: those of read(slice).
  [[nodiscard]] Result<std::uint64_t> nbytes_of(const Slice& slice) const noexcept {
    Error error;
    if (Status status = slice.check(); !status) return status.error();
    const TensorInfo of = info();
    if (of.c().dtype == SAFETENSORS_DTYPE_UNKNOWN) {  // elements have no size, and read() refuses a part of them
      const Result<Array> whole = read_any(slice.c());
      if (!whole) return whole.error();
      return whole->nbytes();
    }
    safetensors_resolved_slice* raw = nullptr;
    std::uint64_t bytes = 0;
    if (safetensors_slice_resolve(slice.c(), of.c().dtype, of.shape().data(), of.shape().size(), &raw, &error.c()))
      return error;
    const detail::Handle<safetensors_resolved_slice> resolved(raw);
    if (safetensors_resolved_slice_size(raw, &bytes, nullptr, &error.c())) return error;
    return bytes;
  }
  /// Returns the handle of the C interface, which stays owned by this object. NULL if it was moved from.
  [[nodiscard]] const safetensors_tensor* c() const noexcept { return handle_.get(); }

 private:
  [[nodiscard]] Result<Array> read_any(const safetensors_slice* slice) const noexcept {
    Error error;
    safetensors_array* raw = nullptr;
    if (safetensors_tensor_read(c(), slice, &raw, &error.c())) return error;
    return Array(raw);
  }

  detail::Handle<safetensors_tensor> handle_;
};

}  // namespace v0
}  // namespace safetensors17
