/// @file
/// Defines Array: memory with a dtype and a shape, and the owner that keeps the memory alive.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/element.h>
#include <safetensors/error.h>
#include <safetensors/shape.h>
#include <safetensors/slice.h>
#include <safetensors/span.h>
#include <safetensors/typed_view.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// Kinds of memory that an Array can use.
enum class MemoryKind : std::uint8_t {
  /// Writable memory. It belongs to the Array and its copies.
  owned,
  /// A read-only map of the file. Changes of the file are visible in it. If the file becomes shorter, access to the
  /// missing bytes raises SIGBUS.
  shared_map,
  /// A writable map of the file. The system copies each page before the first write to it, so the file never changes.
  /// If the file becomes shorter, access to the missing bytes raises SIGBUS.
  copy_on_write_map,
  /// Memory of the caller: the bytes given to File::from_memory(), the memory of a Source, or a Destination of a plan.
  /// The Array cannot write to this memory.
  borrowed,
};

/// A tensor in memory: elements in C (row-major) order, little-endian, without gaps.
///
/// Copies share the memory. Each copy keeps the memory alive, even after the File is destroyed. The exception is an
/// Array over a Destination: the caller keeps that memory alive. If the Destination has strides or is on a device, the
/// Array has a shape, but no bytes. Call const functions from any thread. If you write to the memory while other
/// threads use it, use a lock of your own.
class Array {
 public:
  /// Makes an Array of shape [0], dtype U8, without memory. An Array that was moved from has the shape [0] and no
  /// bytes.
  Array() noexcept = default;
  /// Makes an Array over memory of the caller. The size of `bytes` must be the size of `shape.numel()` elements of
  /// `dtype`. `owner` keeps the memory alive. `memory` decides whether the Array is writable().
  Array(Dtype dtype, Shape shape, Span<std::byte> bytes, std::shared_ptr<const void> owner, MemoryKind memory) noexcept
      : elements_(bytes, std::move(shape), std::move(owner)), dtype_(dtype), memory_(memory) {}

  /// Returns the dtype of the elements.
  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }
  /// Returns the shape. The reference is valid as long as this object exists.
  [[nodiscard]] const Shape& shape() const& noexcept { return elements_.shape; }
  detail::GiveTheObjectANameFirst shape() const&& = delete;
  /// Returns the number of elements.
  [[nodiscard]] std::uint64_t numel() const noexcept { return shape().numel(); }
  /// Returns the size of the memory in bytes. It is 0 if the Array has a shape, but no bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return elements_.span.size(); }
  /// Returns the kind of memory.
  [[nodiscard]] MemoryKind memory() const noexcept { return memory_; }
  /// Returns true for the kinds `owned` and `copy_on_write_map`.
  [[nodiscard]] bool writable() const noexcept {
    return memory_ == MemoryKind::owned || memory_ == MemoryKind::copy_on_write_map;
  }

  /// Returns the memory for reading. It is valid as long as any copy of this Array or of its owner() exists.
  [[nodiscard]] Span<const std::byte> bytes() const& noexcept { return elements_.span; }
  detail::GiveTheObjectANameFirst bytes() const&& = delete;
  /// Returns the memory for writing. It is valid as long as any copy of this Array or of its owner() exists.
  /// Error: not_writable.
  [[nodiscard]] Result<Span<std::byte>> mutable_bytes() & noexcept {
    if (!writable()) return read_only_error();
    return elements_.span;
  }
  detail::GiveTheObjectANameFirst mutable_bytes() && = delete;

  /// Returns the elements as values of type T. ElementOf<T> says which dtypes T accepts. The elements are valid as long
  /// as any copy of this Array or of its owner() exists.
  ///
  /// Errors:
  /// - dtype_mismatch: T does not accept dtype(), or T is bool and a byte is neither 0 nor 1.
  /// - misaligned_memory: the memory is not aligned for T, because the file stores the tensor at an offset that is not
  ///   aligned. Use Tensor::read() or bytes() then.
  /// - unsupported: the machine is big-endian, and an element has several bytes. Use bytes() and swap the bytes.
  template <class T>
  [[nodiscard]] Result<Span<const T>> as() const& noexcept {
    if (Status status = check(detail::element_type<T>(dtype_)); !status) return std::move(status).error();
    return Span<const T>(reinterpret_cast<const T*>(bytes().data()), bytes().size() / sizeof(T));
  }
  template <class T>
  detail::GiveTheObjectANameFirst as() const&& = delete;

  /// Returns the elements for writing. They are valid as long as the elements of as(). Errors: not_writable, and those
  /// of as().
  template <class T>
  [[nodiscard]] Result<Span<T>> as_mutable() & noexcept {
    if (!writable()) return read_only_error();
    if (Status status = check(detail::element_type<T>(dtype_)); !status) return std::move(status).error();
    return Span<T>(reinterpret_cast<T*>(elements_.span.data()), bytes().size() / sizeof(T));
  }
  template <class T>
  detail::GiveTheObjectANameFirst as_mutable() && = delete;

  /// @{
  /// Returns the elements as a typed view, which keeps the memory alive.
  ///
  /// With `shape`, the Array must have exactly this shape. Without `shape`, the Array may have any shape.
  /// Errors: shape_mismatch, buffer_size (the Array has a shape, but no bytes), and those of as(). The messages of
  /// dtype_mismatch and shape_mismatch name the dtype expected and the dtype found. With `shape`, they also name both
  /// shapes.
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> get() const noexcept {
    return typed<T>(nullptr);
  }
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> get(const Shape& shape) const noexcept {
    return typed<T>(&shape);
  }
  /// @}
  /// Returns a slice of the Array without a copy. The result shares the memory and keeps it alive.
  ///
  /// The slice must be contiguous: see ResolvedSlice::contiguous(). For example, a range of rows is contiguous.
  /// Errors: slice_not_contiguous, buffer_size (the Array has a shape, but no bytes), and those of Slice::resolve().
  [[nodiscard]] SAFETENSORS_API Result<Array> slice(const Slice& slice) const noexcept;

  /// Releases the pages of a shared map that are entirely inside the Array. The next access reads them again.
  /// Error: unsupported (memory() is not `shared_map`). A private map would lose its changes.
  [[nodiscard]] SAFETENSORS_API Status release() const noexcept;

  /// Returns the owner of the memory. It keeps the memory alive without the Array.
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept { return elements_.owner; }

 private:
  // shaped: the shape gives the index of an element, so an element must be whole bytes. shape: null for any shape.
  [[nodiscard]] SAFETENSORS_API Status check(const detail::ElementType& type, bool shaped = false,
                                             const Shape* shape = nullptr) const noexcept;
  template <class T>
  [[nodiscard]] Result<TypedView<const T>> typed(const Shape* shape) const noexcept {
    if (Status status = check(detail::element_type<std::remove_const_t<T>>(dtype_), true, shape); !status)
      return std::move(status).error();
    return TypedView<const T>(reinterpret_cast<const T*>(bytes().data()), this->shape(), owner());
  }
  [[nodiscard]] static SAFETENSORS_API Error read_only_error() noexcept;

  detail::Elements<std::byte> elements_;  // first, because its assignment may throw std::bad_alloc
  Dtype dtype_ = Dtype::U8;
  MemoryKind memory_ = MemoryKind::owned;
};

}  // namespace v0
}  // namespace safetensors
