/// @file
/// A part of the C++17 interface: save(): writes tensors in memory to a file. Include safetensors.hpp instead of this
/// header, and read there about errors, lifetimes and threads.
#pragma once

#include <safetensors/c.h>
#include <safetensors/cpp17/error.hpp>
#include <safetensors/cpp17/values.hpp>

#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace safetensors17 {
inline namespace v0 {

/// Returns a tensor in memory for save(). It holds the pointers: the name, the dimensions and the elements must stay
/// valid until save() returns. `size` is the size of `data` in bytes.
[[nodiscard]] inline safetensors_tensor_data tensor_data(std::string_view name, Dtype dtype, Dims shape,
                                                         const void* data, std::size_t size) noexcept {
  return {name.data(), name.size(), shape.data(), shape.size(), data, size, static_cast<safetensors_dtype>(dtype), 0};
}

/// Returns a metadata pair for save(). It holds the pointers, as tensor_data() does.
[[nodiscard]] inline safetensors_metadata metadata_pair(std::string_view key, std::string_view value) noexcept {
  return {key.data(), key.size(), value.data(), value.size()};
}

/// @{
/// Saves tensors in a file, and replaces an existing file atomically. Without metadata, the file has no `__metadata__`.
/// It needs the whole library: `safetensors::reader` does not write. Any thread may call it.
/// Errors: DUPLICATE_NAME, RESERVED_NAME, INVALID_UTF8, SIZE_OVERFLOW, MISALIGNED_SIZE, DATA_LENGTH (`size` does not
/// match), INVALID_ALIGNMENT, OPEN_FAILED, NOT_REGULAR_FILE, WRITE_FAILED, SYNC_FAILED, REPLACE_FAILED,
/// REPLACED_NOT_DURABLE, UNSUPPORTED, CANCELLED. After an error, the old file is unchanged.
inline Status save(const char* path, View<const safetensors_tensor_data> tensors,
                   View<const safetensors_metadata> metadata = {}, const WriteOptions& options = {},
                   const LayoutOptions& layout = {}) noexcept {
  Error error;
  (void)safetensors_write_file(path, tensors.data(), tensors.size(), metadata.data(), metadata.size(), &options,
                               &layout, &error.c());
  return error;
}
inline Status save(const char* path, std::initializer_list<safetensors_tensor_data> tensors,
                   std::initializer_list<safetensors_metadata> metadata = {}, const WriteOptions& options = {},
                   const LayoutOptions& layout = {}) noexcept {
  return save(path, View<const safetensors_tensor_data>(tensors.begin(), tensors.size()),
              View<const safetensors_metadata>(metadata.size() == 0 ? nullptr : metadata.begin(), metadata.size()),
              options, layout);
}
/// @}

}  // namespace v0
}  // namespace safetensors17
