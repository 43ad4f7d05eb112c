// Shared by the functions of C that write: their arguments, and the calls that write bytes of a tensor.
#pragma once

#include <optional>
#include <vector>

#include "c/support.h"

namespace safetensors::c {

[[nodiscard]] Result<std::vector<TensorData>> tensors_of(const safetensors_tensor_data* tensors, std::size_t count);
// nullopt if the pointer is NULL.
[[nodiscard]] Result<std::optional<MetadataPairs>> metadata_of(const safetensors_metadata* metadata, std::size_t count);
[[nodiscard]] Result<WriteOptions> write_options_of(const safetensors_write_options* given);

// write: a member function of the writer in the handle. position: its second argument, an offset in bytes or the index
// of a row.
template <class Write, class Handle>
safetensors_status write_bytes(Write write, Handle* writer, const char* name, size_t name_length, uint64_t position,
                               const void* data, size_t size, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    auto bytes = bytes_of(data, size, "data");
    if (!bytes) return std::move(bytes).error();
    return (writer->writer.*write)(*text, position, *bytes);
  });
}

// write_slice() of the writer in the handle.
template <class Handle>
safetensors_status write_slice_bytes(Handle* writer, const char* name, size_t name_length,
                                     const safetensors_slice* slice, const void* data, size_t size,
                                     safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}, {slice, "slice"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    auto bytes = bytes_of(data, size, "data");
    if (!bytes) return std::move(bytes).error();
    return writer->writer.write_slice(*text, slice->slice, *bytes);
  });
}

// copy() of the writer in the handle.
template <class Handle>
safetensors_status copy_tensor(Handle* writer, const char* name, size_t name_length, const safetensors_tensor* tensor,
                               safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}, {tensor, "tensor"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    return writer->writer.copy(*text, tensor->tensor);
  });
}

// commit() of the writer in the handle.
template <class Handle>
safetensors_status commit_writer(Handle* writer, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}}); !status) return status;
    return writer->writer.commit();
  });
}

// Closes the writer in the handle, which stays.
template <class Handle>
safetensors_status abort_writer(Handle* writer, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}}); !status) return status;
    const auto removed = std::move(writer->writer);
    return {};
  });
}

}  // namespace safetensors::c
