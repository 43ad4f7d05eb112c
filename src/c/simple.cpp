// The short functions of C: names end with NUL, and one call checks dtype and shape and gives the elements. Files and
// checkpoints share one implementation, because both are sets of tensors.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "c/support.h"

namespace {
using safetensors::Array;
using safetensors::Dtype;
using safetensors::Errc;
using safetensors::Error;
using safetensors::Map;
using safetensors::MetadataPairs;
using safetensors::Result;
using safetensors::ShapeView;
using safetensors::Status;
using safetensors::Tensor;
using namespace safetensors::c;

constexpr std::size_t kTensorInfoSize =
    offsetof(safetensors_tensor_info, shape) + SAFETENSORS_INFO_DIMS * sizeof(uint64_t);

const safetensors::File& set_of(const safetensors_file& file) {
  return file.file;
}
const safetensors::Checkpoint& set_of(const safetensors_checkpoint& checkpoint) {
  return checkpoint.checkpoint;
}

template <class Handle>
uint64_t count_of(const Handle* handle) noexcept {
  return handle ? set_of(*handle).size() : 0;
}

template <class Handle>
safetensors_status info_at(const Handle* handle, const char* kind, uint64_t index, safetensors_tensor_info* info,
                           safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = clear_info(info); !status) return status;
    if (Status status = require({{handle, kind}}); !status) return status;
    const safetensors::Tensors tensors = set_of(*handle).tensors();
    if (index >= tensors.size()) return out_of_range("tensor", index, tensors.size());
    const Tensor tensor = tensors[static_cast<std::size_t>(index)];
    give_struct(safetensors::c::info_of(tensor.info()), info);
    return {};
  });
}

template <class Handle>
safetensors_status info_by_name(const Handle* handle, const char* kind, const char* name, safetensors_tensor_info* info,
                                safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = clear_info(info); !status) return status;
    if (Status status = require({{handle, kind}, {name, "name"}}); !status) return status;
    const Result<Tensor> tensor = set_of(*handle).tensor(name);
    if (!tensor) return tensor.error();
    give_struct(safetensors::c::info_of(tensor->info()), info);
    return {};
  });
}

// The dtype and the shape that the caller expects. Without a shape, every shape is accepted.
struct Expected {
  Dtype dtype;
  std::optional<ShapeView> shape;
};

Result<Expected> expected_of(safetensors_dtype number, const uint64_t* shape, std::size_t rank) {
  auto dtype = dtype_of(number);
  if (!dtype) return std::move(dtype).error();
  if (rank == SAFETENSORS_ANY_RANK) return Expected{*dtype, std::nullopt};
  auto dims = list_of(shape, rank, "shape");
  if (!dims) return std::move(dims).error();
  return Expected{*dtype, *dims};
}

Error describe(const Tensor& tensor, Error error) {
  error.message = "tensor `" + safetensors::printable(tensor.name()) + "`: " + error.message;
  const safetensors::File file = tensor.file();
  error.path = file.path();
  return error;
}

Status check(const Tensor& tensor, const Expected& expected) {
  const bool same_dtype = tensor.dtype() == expected.dtype;
  if (same_dtype && (!expected.shape || std::ranges::equal(tensor.shape(), *expected.shape))) return {};
  std::string message = "expected " + std::string(to_string(expected.dtype));
  if (expected.shape) message += " " + safetensors::to_string(*expected.shape);
  message += ", found " + std::string(to_string(tensor.dtype()));
  if (expected.shape) message += " " + safetensors::to_string(tensor.shape());
  return describe(tensor, make_error(same_dtype ? Errc::shape_mismatch : Errc::dtype_mismatch, std::move(message)));
}

// Checks before it reads: a wrong request for a large tensor costs nothing.
Result<Tensor> checked_tensor(Result<Tensor> tensor, const Expected& expected) {
  if (!tensor) return tensor;
  if (Status status = check(*tensor, expected); !status) return std::move(status).error();
  return tensor;
}

Result<Array> typed_array(const Tensor& tensor, Dtype dtype) {
  Result<Array> array = tensor.view(Map::shared);
  if (!array) return array;
  Result<Elements> elements = elements_as(*array, dtype);
  if (!elements && elements.error().code == Errc::misaligned_memory) return tensor.read();
  if (!elements) return describe(tensor, std::move(elements).error());
  return array;
}

template <class Handle>
safetensors_status get_typed(const Handle* handle, const char* kind, const char* name, safetensors_dtype dtype,
                             const uint64_t* shape, std::size_t rank, safetensors_array** array,
                             safetensors_error* error) {
  clear(array);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{handle, kind}, {name, "name"}, {array, "array"}}); !status) return status;
    auto expected = expected_of(dtype, shape, rank);
    if (!expected) return std::move(expected).error();
    auto tensor = checked_tensor(set_of(*handle).tensor(name), *expected);
    if (!tensor) return std::move(tensor).error();
    return hand_out(typed_array(*tensor, expected->dtype), array);
  });
}

template <class Handle>
safetensors_status read_typed(const Handle* handle, const char* kind, const char* name, safetensors_dtype dtype,
                              const uint64_t* shape, std::size_t rank, void* destination, std::size_t size,
                              safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{handle, kind}, {name, "name"}}); !status) return status;
    auto expected = expected_of(dtype, shape, rank);
    if (!expected) return std::move(expected).error();
    auto bytes = writable_bytes_of(destination, size);
    if (!bytes) return std::move(bytes).error();
    auto tensor = checked_tensor(set_of(*handle).tensor(name), *expected);
    if (!tensor) return std::move(tensor).error();
    return tensor->read_into(*bytes);
  });
}

// An info holds at most 8 dimensions. If a tensor has more, the text shows the first 8 and the number of all.
std::string text_of_shape(const safetensors_tensor_info& info) {
  const std::size_t known = std::min<std::size_t>(info.rank, SAFETENSORS_INFO_DIMS);
  std::string text = safetensors::to_string(ShapeView(info.shape, known));
  if (known == info.rank) return text;
  text.pop_back();
  return text + ", ... " + std::to_string(info.rank) + " dimensions]";
}

}  // namespace

extern "C" {

uint64_t safetensors_file_count(const safetensors_file* file) {
  return count_of(file);
}
uint64_t safetensors_checkpoint_count(const safetensors_checkpoint* checkpoint) {
  return count_of(checkpoint);
}

safetensors_status safetensors_file_info_at(const safetensors_file* file, uint64_t index, safetensors_tensor_info* info,
                                            safetensors_error* error) {
  return info_at(file, "file", index, info, error);
}
safetensors_status safetensors_checkpoint_info_at(const safetensors_checkpoint* checkpoint, uint64_t index,
                                                  safetensors_tensor_info* info, safetensors_error* error) {
  return info_at(checkpoint, "checkpoint", index, info, error);
}

safetensors_status safetensors_file_info(const safetensors_file* file, const char* name, safetensors_tensor_info* info,
                                         safetensors_error* error) {
  return info_by_name(file, "file", name, info, error);
}
safetensors_status safetensors_checkpoint_info(const safetensors_checkpoint* checkpoint, const char* name,
                                               safetensors_tensor_info* info, safetensors_error* error) {
  return info_by_name(checkpoint, "checkpoint", name, info, error);
}

safetensors_status safetensors_tensor_info_format(const safetensors_tensor_info* info, char* text, size_t capacity,
                                                  size_t* length, safetensors_error* error) {
  clear(length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{info, "info"}}); !status) return status;
    if (!text && capacity != 0) return invalid_argument("argument text is NULL");
    auto given = options_of(info, kTensorInfoSize);
    if (!given) return std::move(given).error();
    auto name = text_of(given->name, given->name_length, "name");
    if (!name) return std::move(name).error();
    auto dtype = dtype_of(given->dtype);
    if (!dtype) return std::move(dtype).error();
    const std::string shown =
        safetensors::printable(*name) + " " + std::string(to_string(*dtype)) + " " + text_of_shape(*given);
    if (length) *length = shown.size();
    copy_text(shown, text, capacity, {});
    return {};
  });
}

safetensors_status safetensors_file_metadata(const safetensors_file* file, const char* key, char* value,
                                             size_t capacity, size_t* length, safetensors_error* error) {
  clear(length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}, {key, "key"}}); !status) return status;
    if (!value && capacity != 0) return invalid_argument("argument value is NULL");
    const auto found = file->file.metadata().find(key);
    if (!found) {
      Error missing = make_error(Errc::not_found, "there is no metadata key `" + safetensors::printable(key) + "`");
      missing.path = file->file.path();
      return missing;
    }
    if (length) *length = found->size();
    if (capacity == 0) return {};
    if (capacity <= found->size())
      return make_error(Errc::buffer_size, "destination too small: capacity " + std::to_string(capacity) +
                                               ", expected at least " + std::to_string(found->size() + 1));
    std::copy(found->begin(), found->end(), value);
    value[found->size()] = '\0';
    return {};
  });
}

safetensors_status safetensors_file_get(const safetensors_file* file, const char* name, safetensors_dtype dtype,
                                        const uint64_t* shape, size_t rank, safetensors_array** array,
                                        safetensors_error* error) {
  return get_typed(file, "file", name, dtype, shape, rank, array, error);
}
safetensors_status safetensors_checkpoint_get(const safetensors_checkpoint* checkpoint, const char* name,
                                              safetensors_dtype dtype, const uint64_t* shape, size_t rank,
                                              safetensors_array** array, safetensors_error* error) {
  return get_typed(checkpoint, "checkpoint", name, dtype, shape, rank, array, error);
}

const void* safetensors_array_data(const safetensors_array* array) {
  return array ? array->array.bytes().data() : nullptr;
}

safetensors_status safetensors_file_read(const safetensors_file* file, const char* name, safetensors_dtype dtype,
                                         const uint64_t* shape, size_t rank, void* destination, size_t size,
                                         safetensors_error* error) {
  return read_typed(file, "file", name, dtype, shape, rank, destination, size, error);
}
safetensors_status safetensors_checkpoint_read(const safetensors_checkpoint* checkpoint, const char* name,
                                               safetensors_dtype dtype, const uint64_t* shape, size_t rank,
                                               void* destination, size_t size, safetensors_error* error) {
  return read_typed(checkpoint, "checkpoint", name, dtype, shape, rank, destination, size, error);
}

}  // extern "C"
