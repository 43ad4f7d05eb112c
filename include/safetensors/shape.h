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
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// A view of dimensions. It does not own them.
using ShapeView = Span<const std::uint64_t>;

namespace detail {
// dims_as(). Tests pass a smaller `max` to imitate a 32-bit std::size_t.
template <class Size>
Status copy_dims(ShapeView shape, Span<Size> dims, std::uint64_t max) noexcept;
}  // namespace detail

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
  /// Copies the dimensions.
  Shape& operator=(const Shape& other) { return *this = Shape(other); }
  /// Moves the dimensions. The Shape moved from is a scalar.
  Shape& operator=(Shape&& other) noexcept {
    heap_ = std::move(other.heap_);
    std::copy(other.inline_, other.inline_ + kInline, inline_);
    rank_ = other.rank_;
    if (&other != this) other.rank_ = 0;
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
  template <class Size>
  friend Status detail::copy_dims(ShapeView shape, Span<Size> dims, std::uint64_t max) noexcept;
  // Returns size_overflow if a dimension is above `max`. Returns invalid_argument if the shape does not have `count`
  // dimensions.
  [[nodiscard]] static SAFETENSORS_API Status check(ShapeView shape, std::uint64_t max, std::size_t count) noexcept;

  std::size_t rank_ = 0;
  std::uint64_t inline_[kInline] = {};
  std::unique_ptr<std::uint64_t[]> heap_;
};

/// @{
/// Returns the dimensions as integers of another type, such as those of an engine's tensors:
/// @code
/// const std::vector<std::size_t> sizes = dims_as<std::size_t>(array.shape()).value();
/// const std::vector<std::int64_t> for_torch = dims_as<std::int64_t>(array.shape()).value();
/// @endcode
///
/// The second function writes them to memory of the caller, and needs no allocation. `dims` must have one value per
/// dimension. After an error, the contents of `dims` are unspecified.
/// Errors: size_overflow (a dimension does not fit in Size, for example in a 32-bit `std::size_t`; the message names
/// the dimension), invalid_argument (the size of `dims` is wrong), out_of_memory.
template <class Size>
[[nodiscard]] Result<std::vector<Size>> dims_as(ShapeView shape) noexcept;
template <class Size>
[[nodiscard]] Status dims_as(ShapeView shape, Span<Size> dims) noexcept;
/// @}

namespace detail {
// Returns false if there is not enough memory.
template <class Vector>
bool resize(Vector& vector, std::uint64_t size) noexcept {
  if (size > vector.max_size()) return false;
#if defined(__cpp_exceptions)
  try {
    vector.resize(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
    return false;
  }
#else
  vector.resize(static_cast<std::size_t>(size));
#endif
  return true;
}

template <class Size>
Status copy_dims(ShapeView shape, Span<Size> dims, std::uint64_t max) noexcept {
  static_assert(std::is_integral_v<Size> && !std::is_same_v<Size, bool>, "dimensions are integers");
  if (Status status = Shape::check(shape, max, dims.size()); !status) return status;
  for (std::size_t i = 0; i < shape.size(); ++i) dims[i] = static_cast<Size>(shape[i]);
  return {};
}
}  // namespace detail

template <class Size>
Status dims_as(ShapeView shape, Span<Size> dims) noexcept {
  return detail::copy_dims(shape, dims, std::numeric_limits<Size>::max());
}

template <class Size>
Result<std::vector<Size>> dims_as(ShapeView shape) noexcept {
  std::vector<Size> dims;
  if (!detail::resize(dims, shape.size())) return detail::error_of(Errc::out_of_memory, "out of memory");
  if (Status status = dims_as<Size>(shape, Span<Size>(dims)); !status) return std::move(status).error();
  return dims;
}

/// Returns the shape as text: "[2, 3]", or "[]" for a scalar. Shortens long shapes:
/// "[1, 1, 1, 1, 1, 1, 1, 1, ... 50000000 dimensions]". May throw `std::bad_alloc`.
[[nodiscard]] SAFETENSORS_API std::string to_string(ShapeView shape);

}  // namespace v0
}  // namespace safetensors
