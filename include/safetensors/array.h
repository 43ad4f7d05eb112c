// Memory with a dtype and a shape, and whatever keeps it alive.
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

// What kind of memory an Array stands on.
enum class MemoryKind : std::uint8_t {
  owned,        // its own, writable
  shared_map,   // the file's pages, read-only; changes to the file show, a file made shorter raises SIGBUS
  private_map,  // the file's pages, copied when written to; the file never changes; SIGBUS as above
  borrowed,     // somebody else's: what the File was opened over, read-only; or where a plan was told to read to
};

// Elements in C (row-major) order, little-endian, without gaps. Copies share the memory, which lives as long as any
// of them, whatever happens to the File. const calls from any thread; writing needs the caller's own locking.
class Array {
 public:
  Array() noexcept = default;
  // Over memory of the caller's; owner keeps it alive.
  Array(Dtype dtype, Shape shape, std::span<std::byte> bytes, std::shared_ptr<const void> owner,
        MemoryKind memory) noexcept
      : dtype_(dtype),
        memory_(memory),
        shape_(std::move(shape)),
        data_(bytes.data()),
        size_(bytes.size()),
        owner_(std::move(owner)) {}
  Array(const Array&) = default;
  Array& operator=(const Array&) = default;
  // What was moved from has no bytes.
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
  ~Array() = default;

  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const& noexcept { return shape_; }
  const Shape& shape() const&& = delete;
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return size_; }
  [[nodiscard]] MemoryKind memory() const noexcept { return memory_; }
  [[nodiscard]] bool writable() const noexcept {
    return memory_ == MemoryKind::owned || memory_ == MemoryKind::private_map;
  }

  [[nodiscard]] std::span<const std::byte> bytes() const& noexcept { return {data_, size_}; }
  std::span<const std::byte> bytes() const&& = delete;
  // Error: not_writable.
  [[nodiscard]] Result<std::span<std::byte>> mutable_bytes() & noexcept {
    if (!writable()) return read_only_error();
    return std::span<std::byte>(data_, size_);
  }
  Result<std::span<std::byte>> mutable_bytes() && = delete;

  // The elements. T is chosen by ElementOf<T> (dtype.h).
  // Errors: dtype_mismatch; misaligned_memory (a file may put a tensor at an odd offset: read() it, or use bytes());
  // unsupported (elements of several bytes on a big-endian machine: swap bytes()).
  template <class T>
  [[nodiscard]] Result<std::span<const T>> as() const& noexcept {
    if (Status status = check_element(ElementOf<T>::accepts(dtype_), alignof(T), sizeof(T)); !status)
      return std::move(status).error();
    return std::span<const T>(reinterpret_cast<const T*>(data_), size_ / sizeof(T));
  }
  template <class T>
  Result<std::span<const T>> as() const&& = delete;

  // As as(), to write to. Error also: not_writable.
  template <class T>
  [[nodiscard]] Result<std::span<T>> as_mutable() & noexcept {
    if (!writable()) return read_only_error();
    if (Status status = check_element(ElementOf<T>::accepts(dtype_), alignof(T), sizeof(T)); !status)
      return std::move(status).error();
    return std::span<T>(reinterpret_cast<T*>(data_), size_ / sizeof(T));
  }
  template <class T>
  Result<std::span<T>> as_mutable() && = delete;

  // Of a map: brings the pages of [offset, offset + size), clipped to the array, into memory now, so that touching them
  // later does not wait; a few MiB ahead of use are enough. Does nothing for other memory. Errors: read_failed (also
  // where the file became shorter: the system does not tell that from a failing device), out_of_memory.
  [[nodiscard]] SAFETENSORS_API Status prefault(std::uint64_t offset = 0,
                                                std::uint64_t size = ~std::uint64_t{0}) const noexcept;
  // Of a shared map: the process gives up the pages that lie wholly within the array; touching them again reads them
  // again. Error: unsupported for other memory; in a private map what was written would be lost.
  [[nodiscard]] SAFETENSORS_API Status release() const noexcept;

  // Keeps the memory alive without the Array.
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
