/// @file
/// Defines Span, a view of elements in memory, for programs in C++17 and later.
///
/// Thread-safety: a Span is a value. Threads may read one at the same time.
#pragma once

#include <cassert>
#include <cstddef>
#include <string_view>  // std::data() and std::size(): <iterator> includes streams
#include <type_traits>
#include <utility>
#if __has_include(<span>) && (__cplusplus > 201703L || (defined(_MSVC_LANG) && _MSVC_LANG > 201703L))
#include <span>
#endif

namespace safetensors {
inline namespace v0 {

namespace detail {
// The type of the elements of a container, which may be const. A type without data() and size() has no such type. The
// elements of a temporary object are const, unless it is a view, whose elements outlive it.
template <class Container,
          class Object = std::conditional_t<std::is_reference_v<Container>, Container, const Container&>>
using ElementIn = std::enable_if_t<std::is_convertible_v<decltype(std::size(std::declval<Object>())), std::size_t>,
                                   std::remove_pointer_t<decltype(std::data(std::declval<Object>()))>>;
}  // namespace detail

/// A view of elements in memory: a pointer and a number of elements. It does not own them, and it works as std::span
/// does, which C++17 does not have. Both convert to each other without a cast.
template <class T>
class Span {
 public:
  /// @{
  /// A type of the elements, or of what refers to them. An iterator is a pointer.
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using pointer = T*;
  using reference = T&;
  using iterator = T*;
  using const_iterator = const T*;
  /// @}

  /// Makes a view without elements.
  constexpr Span() noexcept = default;
  /// Makes a view of `size` elements at `data`.
  constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  /// Makes a view of the elements of a std::vector, std::array, std::span, built-in array, or any object with data()
  /// and size(). A temporary object converts only to a view of const elements, for use as an argument: its elements
  /// end with the statement.
  template <class Container,
            std::enable_if_t<!std::is_same_v<std::remove_cv_t<std::remove_reference_t<Container>>, Span> &&
                                 (std::is_const_v<T> || std::is_reference_v<Container> ||
                                  std::is_trivially_copyable_v<Container>),
                             int> = 0,
            std::enable_if_t<std::is_convertible_v<detail::ElementIn<Container> (*)[], T (*)[]>, int> = 0>
  constexpr Span(Container&& container) noexcept  // NOLINT(google-explicit-constructor)
      : data_(std::data(container)), size_(static_cast<std::size_t>(std::size(container))) {}

  /// Returns the address of the first element.
  [[nodiscard]] constexpr T* data() const noexcept { return data_; }
  /// Returns the number of elements.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  /// Returns the size of the elements in bytes.
  [[nodiscard]] constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  /// Returns true when size() is 0.
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  /// @{
  /// Returns an element. `index` must be below size(). Builds without NDEBUG check this.
  [[nodiscard]] constexpr T& operator[](std::size_t index) const noexcept {
    return assert(index < size_ && "out of bounds"), data_[index];
  }
  [[nodiscard]] constexpr T& front() const noexcept { return (*this)[0]; }
  [[nodiscard]] constexpr T& back() const noexcept { return (*this)[size_ - 1]; }
  /// @}
  /// @{
  /// Iterates over the elements.
  [[nodiscard]] constexpr T* begin() const noexcept { return data_; }
  [[nodiscard]] constexpr T* end() const noexcept { return data_ + size_; }
  /// @}
  /// @{
  /// Returns a view of some of the elements. They must exist. Builds without NDEBUG check this.
  [[nodiscard]] constexpr Span first(std::size_t count) const noexcept { return subspan(0, count); }
  [[nodiscard]] constexpr Span last(std::size_t count) const noexcept { return subspan(size_ - count, count); }
  [[nodiscard]] constexpr Span subspan(std::size_t offset) const noexcept { return subspan(offset, size_ - offset); }
  [[nodiscard]] constexpr Span subspan(std::size_t offset, std::size_t count) const noexcept {
    return assert(offset <= size_ && count <= size_ - offset && "out of bounds"), Span(data_ + offset, count);
  }
  /// @}

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// @cond
template <class Container>
Span(Container&&) -> Span<detail::ElementIn<Container&>>;
/// @endcond

/// Returns the bytes of elements for reading.
template <class T>
[[nodiscard]] Span<const std::byte> as_bytes(Span<T> elements) noexcept {
  return {reinterpret_cast<const std::byte*>(elements.data()), elements.size_bytes()};
}
/// Returns the bytes of elements for writing.
template <class T>
[[nodiscard]] Span<std::byte> as_writable_bytes(Span<T> elements) noexcept {
  return {reinterpret_cast<std::byte*>(elements.data()), elements.size_bytes()};
}

}  // namespace v0
}  // namespace safetensors

#if defined(__cpp_lib_span)
/// @cond
// As for std::span: a std::span can be made of a temporary Span, and adaptors of ranges copy a Span.
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<safetensors::Span<T>> = true;
template <class T>
inline constexpr bool std::ranges::enable_view<safetensors::Span<T>> = true;
/// @endcond
#endif
