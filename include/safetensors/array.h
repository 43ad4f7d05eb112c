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
  /// Makes an Array of shape [0], dtype U8, without memory.
  Array() noexcept = default;
  /// Makes an Array over memory of the caller. The size of `bytes` must be the size of `shape.numel()` elements of
  /// `dtype`. `owner` keeps the memory alive. `memory` decides whether the Array is writable().
  Array(Dtype dtype, Shape shape, Span<std::byte> bytes, std::shared_ptr<const void> owner, MemoryKind memory) noexcept
      : dtype_(dtype),
        memory_(memory),
        shape_(std::move(shape)),
        data_(bytes.data()),
        size_(bytes.size()),
        owner_(std::move(owner)) {}
  /// Makes a copy, which shares the memory.
  Array(const Array&) = default;
  /// Moves the memory. After that, `other` has the shape [0] and no bytes.
  Array(Array&& other) noexcept : dtype_(other.dtype_), memory_(other.memory_) { swap(other); }
  /// Copies or moves the memory of `other`.
  Array& operator=(Array other) noexcept {
    swap(other);
    return *this;
  }
  ~Array() = default;

  /// Returns the dtype of the elements.
  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }
  /// Returns the shape. The reference is valid as long as this object exists.
  [[nodiscard]] const Shape& shape() const& noexcept { return shape_; }
  detail::GiveTheObjectANameFirst shape() const&& = delete;
  /// Returns the number of elements.
  [[nodiscard]] std::uint64_t numel() const noexcept { return shape_.numel(); }
  /// Returns the size of the memory in bytes. It is 0 if the Array has a shape, but no bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return size_; }
  /// Returns the kind of memory.
  [[nodiscard]] MemoryKind memory() const noexcept { return memory_; }
  /// Returns true for the kinds `owned` and `copy_on_write_map`.
  [[nodiscard]] bool writable() const noexcept {
    return memory_ == MemoryKind::owned || memory_ == MemoryKind::copy_on_write_map;
  }

  /// Returns the memory for reading. It is valid as long as any copy of this Array or of its owner() exists.
  [[nodiscard]] Span<const std::byte> bytes() const& noexcept { return {data_, size_}; }
  detail::GiveTheObjectANameFirst bytes() const&& = delete;
  /// Returns the memory for writing. It is valid as long as any copy of this Array or of its owner() exists.
  /// Error: not_writable.
  [[nodiscard]] Result<Span<std::byte>> mutable_bytes() & noexcept {
    if (!writable()) return read_only_error();
    return Span<std::byte>(data_, size_);
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
    if (Status status = check<T>(); !status) return std::move(status).error();
    return Span<const T>(reinterpret_cast<const T*>(data_), size_ / sizeof(T));
  }
  template <class T>
  detail::GiveTheObjectANameFirst as() const&& = delete;

  /// Returns the elements for writing. They are valid as long as the elements of as(). Errors: not_writable, and those
  /// of as().
  template <class T>
  [[nodiscard]] Result<Span<T>> as_mutable() & noexcept {
    if (!writable()) return read_only_error();
    if (Status status = check<T>(); !status) return std::move(status).error();
    return Span<T>(reinterpret_cast<T*>(data_), size_ / sizeof(T));
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

  /// Returns a slice of the Array without a copy. The result shares the memory and keeps it alive.
  ///
  /// The slice must be contiguous: see ResolvedSlice::contiguous(). For example, a range of rows is contiguous.
  /// Errors: slice_not_contiguous, buffer_size (the Array has a shape, but no bytes), and those of Slice::resolve().
  [[nodiscard]] SAFETENSORS_API Result<Array> slice(const Slice& slice) const noexcept;

  /// Releases the pages of a shared map that are entirely inside the Array. The next access reads them again.
  /// Error: unsupported (memory() is not `shared_map`). A private map would lose its changes.
  [[nodiscard]] SAFETENSORS_API Status release() const noexcept;

  /// Returns the owner of the memory. It keeps the memory alive without the Array.
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept { return owner_; }

 private:
  // The requirements of a C++ type on the Array.
  struct TypeCheck {
    bool accepted;  // the type accepts the dtype
    bool boolean;   // the type is bool
    bool indexed;   // the shape gives the index of an element, so an element must be whole bytes
    std::size_t alignment, size;
    std::optional<Dtype> dtype;    // of the type, for the message
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

  void swap(Array& other) noexcept {
    std::swap(dtype_, other.dtype_);
    std::swap(memory_, other.memory_);
    std::swap(shape_, other.shape_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    owner_.swap(other.owner_);
  }

  Dtype dtype_ = Dtype::U8;
  MemoryKind memory_ = MemoryKind::owned;
  Shape shape_{0};
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace v0
}  // namespace safetensors
