/// @file
/// Memory with a dtype and a shape, and the owner that keeps it alive.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/shape.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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

/// A tensor in memory: elements in C (row-major) order, little-endian, without gaps.
///
/// Copies share the memory. The memory lives as long as the last copy, even after the File is gone. An Array over a
/// Destination is the exception: it does not keep the memory of the caller alive.
/// Call const functions from any thread. If you write to the memory, do your own locking.
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
  /// Moves the memory. The Array moved from has no bytes.
  Array(Array&& other) noexcept
      : dtype_(other.dtype_),
        memory_(other.memory_),
        shape_(std::move(other.shape_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        owner_(std::move(other.owner_)) {}
  Array& operator=(Array&& other) noexcept {
    if (this == &other) return *this;
    dtype_ = other.dtype_;
    memory_ = other.memory_;
    shape_ = std::move(other.shape_);
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
  /// - dtype_mismatch: T does not accept dtype().
  /// - misaligned_memory: a file may store a tensor at an odd offset. Use Tensor::read() or bytes() then.
  /// - unsupported: elements of several bytes on a big-endian machine. Use bytes() and swap them.
  template <class T>
  [[nodiscard]] Result<std::span<const T>> as() const& noexcept {
    if (Status status = check_element(ElementOf<T>::accepts(dtype_), alignof(T), sizeof(T)); !status)
      return std::move(status).error();
    return std::span<const T>(reinterpret_cast<const T*>(data_), size_ / sizeof(T));
  }
  template <class T>
  Result<std::span<const T>> as() const&& = delete;

  /// Returns the elements for writing. Errors: not_writable, and the errors of as().
  template <class T>
  [[nodiscard]] Result<std::span<T>> as_mutable() & noexcept {
    if (!writable()) return read_only_error();
    if (Status status = check_element(ElementOf<T>::accepts(dtype_), alignof(T), sizeof(T)); !status)
      return std::move(status).error();
    return std::span<T>(reinterpret_cast<T*>(data_), size_ / sizeof(T));
  }
  template <class T>
  Result<std::span<T>> as_mutable() && = delete;

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

  /// Returns the owner of the memory. A copy of it keeps the memory alive without the Array.
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }

 private:
  [[nodiscard]] SAFETENSORS_API Status check_element(bool accepted, std::size_t alignment,
                                                     std::size_t size) const noexcept;
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
