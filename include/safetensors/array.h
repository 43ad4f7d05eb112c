/// @file
/// Memory with a dtype and a shape, and the owner that keeps it alive.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/element.h>
#include <safetensors/error.h>
#include <safetensors/shape.h>
#include <safetensors/slice.h>
#include <safetensors/typed_view.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// Kinds of memory that an Array can use.
enum class MemoryKind : std::uint8_t {
  /// Memory of the Array itself, writable.
  owned,
  /// Pages of the file, read-only. Changes to the file are visible. Access raises SIGBUS if the file becomes shorter.
  shared_map,
  /// Pages of the file, copied on write. The file never changes. Access raises SIGBUS if the file becomes shorter.
  private_map,
  /// Memory of the caller, read-only for the Array: the memory that a File was opened over, or a Destination of a plan.
  borrowed,
};

/// How a program will access the pages of an Array: a hint to the system.
enum class Advice : std::uint8_t {
  normal,      ///< no hint; cancels `sequential` and `random`
  sequential,  ///< from the first byte to the last: read ahead far, release pages behind
  random,      ///< at random: do not read ahead
  will_need,   ///< soon: start to read all pages now, without waiting
};

/// A tensor in memory: elements in C (row-major) order, little-endian, without gaps.
///
/// Copies share the memory. The memory lives as long as the last copy, even after the File is gone. An Array over a
/// Destination is the exception: it does not keep the memory of the caller alive. If the Destination has strides or is
/// on a device, the Array has a shape, but no bytes. Call const functions from any thread. If you write to the memory,
/// do your own locking.
class Array {
 public:
  /// Makes an Array of shape [0], dtype U8, without memory.
  Array() noexcept = default;
  /// Makes an Array over memory of the caller. `bytes` must hold the elements of `dtype` and `shape`. `owner` keeps the
  /// memory alive. `memory` decides whether the Array is writable().
  Array(Dtype dtype, Shape shape, std::span<std::byte> bytes, std::shared_ptr<const void> owner,
        MemoryKind memory) noexcept
      : dtype_(dtype),
        memory_(memory),
        shape_(std::move(shape)),
        data_(bytes.data()),
        size_(bytes.size()),
        owner_(std::move(owner)) {}
  /// @{
  /// Copies share the memory.
  Array(const Array&) = default;
  Array& operator=(const Array&) = default;
  /// @}
  /// @{
  /// Moves the memory. The Array moved from has the shape [0] and no bytes.
  Array(Array&& other) noexcept
      : dtype_(other.dtype_),
        memory_(other.memory_),
        shape_(std::exchange(other.shape_, Shape{0})),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        owner_(std::move(other.owner_)) {}
  Array& operator=(Array&& other) noexcept {
    if (this == &other) return *this;
    dtype_ = other.dtype_;
    memory_ = other.memory_;
    shape_ = std::exchange(other.shape_, Shape{0});
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    owner_ = std::move(other.owner_);
    return *this;
  }
  /// @}
  ~Array() = default;

  /// Returns the dtype of the elements.
  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }
  /// Returns the shape. The reference is valid as long as this object.
  [[nodiscard]] const Shape& shape() const& noexcept { return shape_; }
  const Shape& shape() const&& = delete;
  /// Returns the number of elements.
  [[nodiscard]] std::uint64_t numel() const noexcept { return shape_.numel(); }
  /// Returns the size of the memory in bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return size_; }
  /// Returns the kind of memory.
  [[nodiscard]] MemoryKind memory() const noexcept { return memory_; }
  /// Returns true for the kinds `owned` and `private_map`.
  [[nodiscard]] bool writable() const noexcept {
    return memory_ == MemoryKind::owned || memory_ == MemoryKind::private_map;
  }

  /// Returns the memory for reading. It is valid as long as any copy of this Array, or its owner().
  [[nodiscard]] std::span<const std::byte> bytes() const& noexcept { return {data_, size_}; }
  std::span<const std::byte> bytes() const&& = delete;
  /// Returns the memory for writing. It is valid as long as any copy of this Array, or its owner().
  /// Error: not_writable.
  [[nodiscard]] Result<std::span<std::byte>> mutable_bytes() & noexcept {
    if (!writable()) return read_only_error();
    return std::span<std::byte>(data_, size_);
  }
  Result<std::span<std::byte>> mutable_bytes() && = delete;

  /// Returns the elements as values of type T. ElementOf<T> says which dtypes T accepts.
  ///
  /// Errors:
  /// - dtype_mismatch: T does not accept dtype(), or T is bool and a byte is neither 0 nor 1.
  /// - misaligned_memory: a file may store a tensor at an odd offset. Use Tensor::read() or bytes() then.
  /// - unsupported: elements of several bytes on a big-endian machine. Use bytes() and swap them.
  template <class T>
  [[nodiscard]] Result<std::span<const T>> as() const& noexcept {
    if (Status status = check<T>(); !status) return std::move(status).error();
    return std::span<const T>(reinterpret_cast<const T*>(data_), size_ / sizeof(T));
  }
  template <class T>
  Result<std::span<const T>> as() const&& = delete;

  /// Returns the elements for writing. Errors: not_writable, and the errors of as().
  template <class T>
  [[nodiscard]] Result<std::span<T>> as_mutable() & noexcept {
    if (!writable()) return read_only_error();
    if (Status status = check<T>(); !status) return std::move(status).error();
    return std::span<T>(reinterpret_cast<T*>(data_), size_ / sizeof(T));
  }
  template <class T>
  Result<std::span<T>> as_mutable() && = delete;

  /// @{
  /// Returns the elements as a typed view, which keeps the memory alive.
  ///
  /// With `shape`, the array must have exactly this shape. Without it, every shape is accepted.
  /// Errors: shape_mismatch, buffer_size (the Array has no bytes for its shape), and those of as(). A mismatch error
  /// names the dtype expected and the dtype found. With `shape`, it also names both shapes.
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> get() const noexcept {
    return typed<const T>(nullptr);
  }
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> get(const Shape& shape) const noexcept {
    return typed<const T>(&shape);
  }
  /// @}
  /// @{
  /// Returns the elements as a writable typed view. Errors: not_writable, and those of get().
  template <class T>
  [[nodiscard]] Result<TypedView<T>> get_mutable() noexcept {
    if (!writable()) return read_only_error();
    return typed<T>(nullptr);
  }
  template <class T>
  [[nodiscard]] Result<TypedView<T>> get_mutable(const Shape& shape) noexcept {
    if (!writable()) return read_only_error();
    return typed<T>(&shape);
  }
  /// @}

  /// Returns a part of the array without a copy. It shares the memory.
  ///
  /// The slice must be contiguous, such as a range of rows: ResolvedSlice::contiguous().
  /// Errors: slice_not_contiguous, buffer_size (the Array has no bytes for its shape), and those of Slice::resolve().
  [[nodiscard]] SAFETENSORS_API Result<Array> slice(const Slice& slice) const noexcept;

  /// Loads the pages of bytes [offset, offset + size) of a map into memory, so that later access does not wait.
  ///
  /// The range is clipped to the array. It is enough to prefault a few MiB before you use them. For other kinds of
  /// memory, this function does nothing.
  /// Errors: out_of_memory, read_failed. The system reports a file that became shorter and a failing device in the same
  /// way; both are read_failed.
  [[nodiscard]] SAFETENSORS_API Status prefault(std::uint64_t offset = 0,
                                                std::uint64_t size = ~std::uint64_t{0}) const noexcept;
  /// Releases the pages of a shared map that are entirely inside the array. The next access reads them again.
  /// Error: unsupported for other kinds of memory. In a private map, the changes would be lost.
  [[nodiscard]] SAFETENSORS_API Status release() const noexcept;

  /// Tells the system how the program will access the pages of a map. The pages at both ends may belong to other
  /// tensors, too. For other kinds of memory, this function does nothing. Error: unsupported (the system refuses).
  [[nodiscard]] SAFETENSORS_API Status advise(Advice advice) const noexcept;
  /// @{
  /// Locks the pages of the array in memory, so that the system never writes them out or drops them, and unlocks them.
  /// lock() reads missing pages first. Pages at both ends may belong to other tensors, too: unlock() unlocks them as
  /// well, however often they were locked. Unmapping a file unlocks its pages. Call unlock() before release(), and
  /// before you free other memory. Errors: out_of_memory (the limit `RLIMIT_MEMLOCK`, or memory), read_failed, as
  /// prefault().
  [[nodiscard]] SAFETENSORS_API Status lock() const noexcept;
  SAFETENSORS_API void unlock() const noexcept;
  /// @}

  /// Returns the owner of the memory. A copy of it keeps the memory alive without the Array.
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }

 private:
  // What a C++ type requires of the array.
  struct TypeCheck {
    bool accepted;  // the type accepts the dtype
    bool boolean;
    bool indexed;  // by shape, so an element must be whole bytes
    std::size_t alignment, size;
    std::optional<Dtype> dtype;    // for the message
    const Shape* shape = nullptr;  // null: every shape is accepted
  };
  [[nodiscard]] SAFETENSORS_API Status check(const TypeCheck& type) const noexcept;
  template <class T>
  [[nodiscard]] Status check(bool indexed = false, const Shape* shape = nullptr) const noexcept {
    return check({ElementOf<T>::accepts(dtype_), std::is_same_v<T, bool>, indexed, alignof(T), sizeof(T),
                  detail::own_dtype<T>(), shape});
  }
  template <class T>
  [[nodiscard]] Result<TypedView<T>> typed(const Shape* shape) const noexcept {
    if (Status status = check<std::remove_const_t<T>>(true, shape); !status) return std::move(status).error();
    return TypedView<T>(reinterpret_cast<T*>(data_), shape_, owner_);
  }
  [[nodiscard]] static SAFETENSORS_API Error read_only_error() noexcept;

  Dtype dtype_ = Dtype::U8;
  MemoryKind memory_ = MemoryKind::owned;
  Shape shape_{0};
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace v0
}  // namespace safetensors
