/// @file
/// Saves tensors from memory and from other files in one call.
#pragma once

#include <safetensors/array.h>
#include <safetensors/element.h>
#include <safetensors/file.h>
#include <safetensors/path.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// A tensor that save() saves: elements of the caller, an Array, or a Tensor of another file.
///
/// It does not copy the name and the elements of the caller: they must stay valid during save().
class NamedTensor {
 public:
  /// Takes elements: a std::vector, std::array, std::span or array of a type that ElementOf knows. Its dtype follows
  /// from this type. The elements are in C order, as many as `shape` says; otherwise save() returns data_length.
  template <class Elements>
  requires requires(const Elements& elements) { std::span(elements); }
  NamedTensor(std::string_view name, Shape shape, const Elements& elements) noexcept
      : name_(name),
        dtype_(detail::dtype_of<std::remove_cv_t<typename decltype(std::span(elements))::element_type>>()),
        shape_(std::move(shape)),
        bytes_(std::as_bytes(std::span(elements))) {}
  /// Takes the elements of an Array. Keeps the memory alive.
  NamedTensor(std::string_view name, Array array)
      : name_(name), dtype_(array.dtype()), shape_(array.shape()), array_(std::move(array)) {
    bytes_ = array_.bytes();
  }
  /// Takes a tensor of another file under a new name. save() copies its bytes from file to file.
  NamedTensor(std::string_view name, Tensor tensor)
      : name_(name), dtype_(tensor.dtype()), shape_(tensor.shape()), tensor_(std::move(tensor)) {}
  /// Takes a tensor of another file under its own name.
  NamedTensor(const Tensor& tensor) : NamedTensor(tensor.name(), tensor) {}  // NOLINT(google-explicit-constructor)

  /// Returns the name.
  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  /// Returns the dtype.
  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }
  /// Returns the shape. It is valid as long as this object.
  [[nodiscard]] const Shape& shape() const& noexcept { return shape_; }
  const Shape& shape() const&& = delete;
  /// Returns the elements in memory. It has none for a Tensor.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Returns the Tensor to copy, or nullptr. It is valid as long as this object.
  [[nodiscard]] const Tensor* tensor() const& noexcept { return tensor_ ? &*tensor_ : nullptr; }
  const Tensor* tensor() const&& = delete;

 private:
  std::string_view name_;
  Dtype dtype_;
  Shape shape_;
  std::span<const std::byte> bytes_;
  Array array_;
  std::optional<Tensor> tensor_;
};

/// @{
/// Saves tensors in a file and replaces an existing file at the path:
/// @code
/// save("out.safetensors", {{"w", {2, 3}, w}, {"b", {2}, b}}, {{"format", "pt"}}).value();
/// @endcode
///
/// Works as write_file(). Empty metadata writes no `__metadata__`. Tensors may come from the file that is replaced.
/// Errors: those of write_file(), and those of reading for a Tensor.
[[nodiscard]] SAFETENSORS_API Status save(PathView path, std::span<const NamedTensor> tensors,
                                          const MetadataPairs& metadata = {}, const WriteOptions& options = {},
                                          const LayoutOptions& layout_options = {}) noexcept;
[[nodiscard]] inline Status save(PathView path, std::initializer_list<NamedTensor> tensors,
                                 const MetadataPairs& metadata = {}, const WriteOptions& options = {},
                                 const LayoutOptions& layout_options = {}) noexcept {
  return save(path, std::span<const NamedTensor>(tensors.begin(), tensors.size()), metadata, options, layout_options);
}
/// @}

}  // namespace v0
}  // namespace safetensors
