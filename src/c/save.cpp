// The simplest way to write in C: safetensors_save(), with tensors of at most 8 dimensions.
#include <safetensors/c_simple.h>
#include <safetensors/save.h>

#include <optional>
#include <string>
#include <vector>

#include "c/support.h"

namespace {
using safetensors::MetadataPairs;
using safetensors::Result;
using safetensors::ShapeView;
using safetensors::Status;
using safetensors::TensorData;
using namespace safetensors::c;

Result<TensorData> tensor_of(const safetensors_named_tensor& given, std::size_t index) {
  const std::string where = "tensor " + std::to_string(index) + ": ";
  if (!given.name) return invalid_argument(where + "its name is NULL");
  auto dtype = dtype_of(given.dtype);
  if (!dtype) return invalid_argument(where + dtype.error().message);
  if (given.rank > SAFETENSORS_INFO_DIMS)
    return invalid_argument(where + "rank " + std::to_string(given.rank) + ", at most " +
                            std::to_string(SAFETENSORS_INFO_DIMS) + " (safetensors_write_file() takes any rank)");
  for (std::size_t i = given.rank; i < SAFETENSORS_INFO_DIMS; ++i)
    if (given.shape[i] != 0)
      return invalid_argument(where + "dimension " + std::to_string(i) + " is " + std::to_string(given.shape[i]) +
                              ", expected 0 after the " + std::to_string(given.rank) + " dimensions of its rank");
  auto bytes = bytes_of(given.data, given.size, "data");
  if (!bytes) return invalid_argument(where + bytes.error().message);
  return TensorData{.name = given.name, .dtype = *dtype, .shape = ShapeView(given.shape, given.rank), .bytes = *bytes};
}

Result<std::vector<TensorData>> named_tensors_of(const safetensors_named_tensor* tensors, std::size_t count) {
  auto given = list_of(tensors, count, "tensors");
  if (!given) return std::move(given).error();
  std::vector<TensorData> result;
  result.reserve(count);
  for (const safetensors_named_tensor& each : *given) {
    auto tensor = tensor_of(each, result.size());
    if (!tensor) return std::move(tensor).error();
    result.push_back(*tensor);
  }
  return result;
}

// Keys and values in turn, up to a NULL.
Result<std::optional<MetadataPairs>> pairs_of(const char* const* metadata) {
  if (!metadata || !*metadata) return std::optional<MetadataPairs>();
  MetadataPairs pairs;
  for (; *metadata; metadata += 2) {
    if (!metadata[1])
      return invalid_argument("metadata key `" + safetensors::printable(metadata[0]) +
                              "` has no value: the list ends after it");
    pairs.emplace_back(metadata[0], metadata[1]);
  }
  return std::optional<MetadataPairs>(std::move(pairs));
}

}  // namespace

extern "C" {

safetensors_status safetensors_save(const char* path, const safetensors_named_tensor* tensors, size_t tensor_count,
                                    const char* const* metadata, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}}); !status) return status;
    auto given = named_tensors_of(tensors, tensor_count);
    if (!given) return std::move(given).error();
    auto pairs = pairs_of(metadata);
    if (!pairs) return std::move(pairs).error();
    return safetensors::save(path, *given, *pairs);
  });
}

}  // extern "C"
