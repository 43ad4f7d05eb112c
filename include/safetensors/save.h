/// @file
/// Saves tensors from memory and from other files in one call.
#pragma once

#include <safetensors/array.h>
#include <safetensors/element.h>
#include <safetensors/file.h>
#include <safetensors/path.h>
#include <safetensors/span.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// A tensor for save(): its name and its elements. The elements come from memory of the caller, from an Array, or from
/// a Tensor of another file.
///
/// A NamedTensor keeps a copy of the name. It keeps elements that you move into it, such as a temporary std::vector. It
/// does not copy other elements of the caller: they must stay valid until save() returns.
/// Constructors may throw `std::bad_alloc`.
class NamedTensor {
 public:
  /// Takes elements in C order: a std::vector, std::array, std::span or built-in array. The type of the elements
  /// decides the dtype: see ElementOf. If the number of elements is not `shape.numel()`, save() returns data_length.
  template <class Elements, class Element = std::remove_const_t<detail::ElementIn<const Elements>>>
  NamedTensor(std::string_view name, Shape shape, const Elements& elements)
      : name_(name),
        dtype_(detail::dtype_of<Element>()),
        shape_(std::move(shape)),
        bytes_(as_bytes(Span<const Element>(elements))) {}
  /// Takes a temporary object with elements, such as a std::vector, and keeps it.
  template <class Elements, class = detail::ElementIn<const Elements>,
            std::enable_if_t<!std::is_reference_v<Elements> && !std::is_const_v<Elements> && !std::is_array_v<Elements>,
                             int> = 0>
  NamedTensor(std::string_view name, Shape shape, Elements&& elements)
      : NamedTensor(name, std::move(shape), std::as_const(elements)) {
    const auto kept = std::make_shared<const Elements>(std::forward<Elements>(elements));
    bytes_ = as_bytes(Span(*kept));
    elements_ = kept;
  }
  /// @cond
  // A const temporary cannot be moved, and a temporary built-in array cannot be kept. Both would be gone before save().
  template <class Elements, class = detail::ElementIn<const Elements>>
  NamedTensor(std::string_view, Shape, const Elements&&, detail::KeepTheElementsInAVariable = {}) = delete;
  /// @endcond
  /// Takes elements whose dtype is known only when the program runs.
  NamedTensor(const TensorData& tensor)  // NOLINT(google-explicit-constructor)
      : name_(tensor.name), dtype_(tensor.dtype), shape_(tensor.shape), bytes_(tensor.bytes) {}
  /// Takes the elements of an Array. Keeps their memory alive, like a copy of the Array.
  NamedTensor(std::string_view name, Array array)
      : name_(name), dtype_(array.dtype()), shape_(array.shape()), array_(std::move(array)) {
    bytes_ = array_.bytes();
  }
  /// Takes a tensor of another file under a new name. save() copies its bytes from file to file.
  NamedTensor(std::string_view name, Tensor tensor)
      : name_(name), dtype_(tensor.dtype()), shape_(tensor.shape()), tensor_(std::move(tensor)) {}
  /// Takes a tensor of another file under its own name.
  NamedTensor(const Tensor& tensor) : NamedTensor(tensor.name(), tensor) {}  // NOLINT(google-explicit-constructor)

  /// Returns the name. The view is valid as long as this object exists.
  [[nodiscard]] std::string_view name() const& noexcept { return name_; }
  detail::GiveTheObjectANameFirst name() const&& = delete;
  /// Returns the dtype of the elements.
  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }
  /// Returns the shape. The reference is valid as long as this object exists.
  [[nodiscard]] const Shape& shape() const& noexcept { return shape_; }
  detail::GiveTheObjectANameFirst shape() const&& = delete;
  /// Returns the bytes of the elements. They are valid as long as the elements of the caller, any copy of the Array, or
  /// any copy of this object with its own elements exist. For a Tensor, there are no bytes.
  [[nodiscard]] Span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Returns the Tensor of another file, or nullptr if the elements are in memory. The pointer is valid as long as this
  /// object exists.
  [[nodiscard]] const Tensor* tensor() const& noexcept { return tensor_ ? &*tensor_ : nullptr; }
  detail::GiveTheObjectANameFirst tensor() const&& = delete;

 private:
  std::string name_;
  Dtype dtype_;
  Shape shape_;
  Span<const std::byte> bytes_;
  std::shared_ptr<const void> elements_;  // that were moved into this object
  Array array_;
  std::optional<Tensor> tensor_;
};

/// @{
/// Saves tensors in a file and replaces an existing file at the path:
/// @code
/// save("out.safetensors", {{"w", {2, 3}, w}, {"b", {2}, b}}, {{"format", "pt"}}).value();
/// @endcode
///
/// If the tensors are invalid, nothing is written. Tensors may come from the file that is replaced. The mode of the
/// file is that of the old file, or depends on the umask. Symlinks are followed, unless `options.replace_symlinks` is
/// set. If the old file has several hard links, only this path gets the new file. Devices, FIFOs, sockets and
/// directories are refused. Several threads may save different files at the same time.
///
/// If `metadata` is empty, the new file has no `__metadata__`. In the overload for a span of TensorData, nullopt does
/// that, and `MetadataPairs()` writes an empty `__metadata__`. A list in braces takes the overload for NamedTensor.
/// Errors: those of layout(), open_failed, not_regular_file, write_failed (os_error is ENOSPC or another code),
/// sync_failed, replace_failed, replaced_not_durable, unsupported, cancelled. For a Tensor of another file, also those
/// of Writer::copy().
[[nodiscard]] SAFETENSORS_API Status save(PathView path, Span<const NamedTensor> tensors,
                                          const MetadataPairs& metadata = {}, const WriteOptions& options = {},
                                          const LayoutOptions& layout_options = {}) noexcept;
[[nodiscard]] inline Status save(PathView path, std::initializer_list<NamedTensor> tensors,
                                 const MetadataPairs& metadata = {}, const WriteOptions& options = {},
                                 const LayoutOptions& layout_options = {}) noexcept {
  return save(path, Span<const NamedTensor>(tensors.begin(), tensors.size()), metadata, options, layout_options);
}
[[nodiscard]] SAFETENSORS_API Status save(PathView path, Span<const TensorData> tensors,
                                          const std::optional<MetadataPairs>& metadata = std::nullopt,
                                          const WriteOptions& options = {},
                                          const LayoutOptions& layout_options = {}) noexcept;
/// @}

}  // namespace v0
}  // namespace safetensors
