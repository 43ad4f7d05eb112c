/// @file
/// Defines TypedView: elements of a C++ type, their shape, and the owner of their memory.
#pragma once

#include <safetensors/error.h>
#include <safetensors/shape.h>
#include <safetensors/span.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

namespace detail {
// Elements, their shape, and the owner of their memory. An object that was moved from has the shape [0] and no memory.
template <class T>
struct Elements {
  Elements() noexcept = default;
  Elements(Span<T> given, Shape given_shape, std::shared_ptr<const void> given_owner) noexcept
      : span(given), shape(std::move(given_shape)), owner(std::move(given_owner)) {}
  Elements(const Elements&) = default;
  Elements(Elements&& other) noexcept { swap(other); }
  Elements& operator=(const Elements& other) {
    Elements(other).swap(*this);
    return *this;
  }
  Elements& operator=(Elements&& other) noexcept {
    Elements(std::move(other)).swap(*this);
    return *this;
  }
  ~Elements() = default;
  void swap(Elements& other) noexcept {
    std::swap(span, other.span);
    std::swap(shape, other.shape);
    owner.swap(other.owner);
  }

  Span<T> span;
  Shape shape{0};
  std::shared_ptr<const void> owner;
};
}  // namespace detail

/// A view of elements of type T in C (row-major) order, without gaps. `TypedView<const float>` is read-only.
/// `TypedView<float>` is writable.
///
/// File::get(), Checkpoint::get(), Tensor::get() and Array::get() return a TypedView:
/// @code
/// const auto embed = file.get<float>("embed.weight", {30522, 384}).value();
/// float x = embed(17, 3);
/// @endcode
///
/// Copies share the memory, which may be a map of a file. Each copy keeps the memory alive. The exception is a view of
/// an Array over a Destination: the caller keeps that memory alive. Call const functions from any thread. If you write
/// to the elements while other threads use them, use a lock of your own.
template <class T>
class TypedView {
 public:
  /// The type of an element. It is const if the view is read-only.
  using element_type = T;
  /// The type of an element. It is never const.
  using value_type = std::remove_const_t<T>;

  /// Makes a view of shape [0], without memory. A view that was moved from is like it.
  TypedView() noexcept = default;
  /// Makes a view over memory that `owner` keeps alive. `data` must point to `shape.numel()` elements.
  TypedView(T* data, Shape shape, std::shared_ptr<const void> owner)
      : elements_{{data, static_cast<std::size_t>(shape.numel())}, std::move(shape), std::move(owner)} {}

  /// Returns the shape. The reference is valid as long as this object exists.
  [[nodiscard]] const Shape& shape() const& noexcept { return elements_.shape; }
  detail::GiveTheObjectANameFirst shape() const&& = delete;
  /// Returns the number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return elements_.span.size(); }
  /// Returns true when size() is 0.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  /// @{
  /// Returns the elements. They are valid as long as any copy of this view exists.
  [[nodiscard]] T* data() const& noexcept { return elements_.span.data(); }
  detail::GiveTheObjectANameFirst data() const&& = delete;
  [[nodiscard]] Span<T> span() const& noexcept { return elements_.span; }
  detail::GiveTheObjectANameFirst span() const&& = delete;
  [[nodiscard]] T* begin() const& noexcept { return elements_.span.begin(); }
  detail::GiveTheObjectANameFirst begin() const&& = delete;
  [[nodiscard]] T* end() const& noexcept { return elements_.span.end(); }
  detail::GiveTheObjectANameFirst end() const&& = delete;
  /// @}

  /// @{
  /// Returns one element: a value from a read-only view, a reference from a writable view. Takes one index per
  /// dimension.
  ///
  /// Without `NDEBUG`, an assertion checks the number of indices and their bounds. With `NDEBUG`, a wrong number of
  /// indices or an index out of bounds is undefined behaviour.
  template <class... Index, std::enable_if_t<(std::is_integral_v<Index> && ...), int> = 0>
  [[nodiscard]] std::conditional_t<std::is_const_v<T>, value_type, T&> operator()(Index... index) const& noexcept {
    return data()[offset_of(index...)];
  }
  template <class... Index, class Kept = T, std::enable_if_t<!std::is_const_v<Kept>, int> = 0>
  detail::GiveTheObjectANameFirst operator()(Index... index) const&& = delete;
  /// @}

  /// Returns row `index`: the elements whose first index is `index`. They are valid as long as any copy of this view
  /// exists. A scalar has no rows. Without `NDEBUG`, an assertion checks `index`. With `NDEBUG`, an index out of bounds
  /// is undefined behaviour.
  [[nodiscard]] Span<T> row(std::size_t index) const& noexcept {
    assert(!shape().empty() && index < shape()[0] && "row of a TypedView out of bounds");
    const std::size_t width = size() / static_cast<std::size_t>(shape()[0]);
    return span().subspan(index * width, width);
  }
  detail::GiveTheObjectANameFirst row(std::size_t index) const&& = delete;

  /// Returns the owner of the memory. It keeps the memory alive without the view.
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept { return elements_.owner; }

 private:
  template <class... Index>
  [[nodiscard]] std::size_t offset_of(Index... index) const noexcept {
    assert(sizeof...(Index) == shape().rank() && "a TypedView needs one index per dimension");
    [[maybe_unused]] const std::uint64_t* size = shape().data();
    std::size_t offset = 0;
    [[maybe_unused]] const auto add = [&](std::uint64_t at) {
      assert(at < *size && "index of a TypedView out of bounds");
      offset = offset * static_cast<std::size_t>(*size++) + static_cast<std::size_t>(at);
    };
    (add(static_cast<std::uint64_t>(index)), ...);  // a negative index becomes a very large one
    return offset;
  }

  detail::Elements<T> elements_;
};

}  // namespace v0
}  // namespace safetensors
