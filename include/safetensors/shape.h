/// @file
/// The shape of a tensor: its dimensions in elements, outermost first. The shape [] is a scalar.
///
/// Thread-safety: a Shape and a ShapeView are values. Threads may read one at the same time, and may not change it
/// meanwhile.
#pragma once

#include <safetensors/error.h>
#include <safetensors/export.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// A view of dimensions. It does not own them.
using ShapeView = Span<const std::uint64_t>;

/// Returns the number of elements of a shape: the product of the dimensions, 1 for a scalar. Returns 2^64-1 if the
/// product does not fit.
[[nodiscard]] constexpr std::uint64_t numel(ShapeView shape) noexcept {
  std::uint64_t product = 1;
  bool fits = true;
  for (const std::uint64_t size : shape) {
    if (size == 0) return 0;
    fits = fits && product <= ~std::uint64_t{0} / size;
    if (fits) product *= size;
  }
  return fits ? product : ~std::uint64_t{0};
}

/// A copy of dimensions, which the Shape owns. It converts to a ShapeView, which is valid until the Shape is changed,
/// moved or destroyed. Up to kInline dimensions need no allocation. With more dimensions, construction and copy may
/// throw `std::bad_alloc`.
class Shape {
 public:
  /// Number of dimensions that need no allocation.
  static constexpr std::size_t kInline = 6;

  /// Makes the shape of a scalar.
  Shape() noexcept = default;
  /// @{
  /// Copies the dimensions, outermost first.
  Shape(std::initializer_list<std::uint64_t> dims) : Shape(ShapeView(dims.begin(), dims.size())) {}
  Shape(ShapeView dims) : rank_(dims.size()) {  // NOLINT(google-explicit-constructor)
    if (rank_ > kInline) heap_.reset(new std::uint64_t[rank_]);
    std::copy(dims.begin(), dims.end(), data());
  }
  /// @}
  /// Copies the dimensions.
  Shape(const Shape& other) : Shape(ShapeView(other)) {}
  /// Moves the dimensions. The Shape moved from is a scalar.
  Shape(Shape&& other) noexcept : rank_(other.rank_), heap_(std::move(other.heap_)) {
    std::copy(other.inline_, other.inline_ + kInline, inline_);
    other.rank_ = 0;
  }
  /// Copies or moves the dimensions of `other`.
  Shape& operator=(Shape other) noexcept {
    heap_ = std::move(other.heap_);
    std::copy(other.inline_, other.inline_ + kInline, inline_);
    rank_ = other.rank_;
    return *this;
  }
  ~Shape() = default;

  /// @{
  /// Returns the number of dimensions.
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return rank_; }
  /// @}
  /// Returns true for a scalar.
  [[nodiscard]] bool empty() const noexcept { return rank_ == 0; }
  /// @{
  /// Returns the dimensions. The pointer is valid until the Shape is changed, moved or destroyed.
  [[nodiscard]] const std::uint64_t* data() const noexcept { return rank_ > kInline ? heap_.get() : inline_; }
  [[nodiscard]] std::uint64_t* data() noexcept { return rank_ > kInline ? heap_.get() : inline_; }
  /// @}
  /// @{
  /// Iterates over the dimensions, outermost first.
  [[nodiscard]] const std::uint64_t* begin() const noexcept { return data(); }
  [[nodiscard]] const std::uint64_t* end() const noexcept { return data() + rank_; }
  /// @}
  /// Returns a dimension. `dim` must be below rank().
  [[nodiscard]] std::uint64_t operator[](std::size_t dim) const noexcept { return data()[dim]; }
  /// Returns the number of elements: the product of the dimensions, 1 for a scalar. Returns 2^64-1 if the product does
  /// not fit. In a Header, every product fits.
  [[nodiscard]] std::uint64_t numel() const noexcept { return safetensors::numel({data(), rank_}); }

  /// Returns true when both have the same dimensions.
  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  /// Returns false when both have the same dimensions.
  friend bool operator!=(const Shape& a, const Shape& b) noexcept { return !(a == b); }

 private:
  std::size_t rank_ = 0;
  std::uint64_t inline_[kInline] = {};
  std::unique_ptr<std::uint64_t[]> heap_;
};

/// Returns the shape as text: "[2, 3]", or "[]" for a scalar. Shortens long shapes:
/// "[1, 1, 1, 1, 1, 1, 1, 1, ... 50000000 dimensions]". May throw `std::bad_alloc`.
[[nodiscard]] SAFETENSORS_API std::string to_string(ShapeView shape);

}  // namespace v0
}  // namespace safetensors
