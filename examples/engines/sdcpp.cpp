// The two functions of stable-diffusion.cpp that read headers, by this library. Nothing in them throws
// for an invalid file. The engine reads the bytes itself: it gets the position of each tensor in the file.
#include "sdcpp.h"

#include <safetensors/file.h>

#include <algorithm>
#include <limits>

namespace st = safetensors;

namespace {

// The type of the tensor in memory. The engine converts F8, F64 and I64 while it reads. False: it has no such type.
bool set_type(st::Dtype dtype, TensorStorage& tensor) {
  tensor.is_f8_e4m3 = dtype == st::Dtype::F8_E4M3;
  tensor.is_f8_e5m2 = dtype == st::Dtype::F8_E5M2;
  tensor.is_f64 = dtype == st::Dtype::F64;
  tensor.is_i64 = dtype == st::Dtype::I64;
  switch (dtype) {
    case st::Dtype::F16:
    case st::Dtype::F8_E4M3:
    case st::Dtype::F8_E5M2:
      tensor.type = GGML_TYPE_F16;
      return true;
    case st::Dtype::BF16:
      tensor.type = GGML_TYPE_BF16;
      return true;
    case st::Dtype::F32:
    case st::Dtype::F64:
      tensor.type = GGML_TYPE_F32;
      return true;
    case st::Dtype::I32:
    case st::Dtype::I64:
      tensor.type = GGML_TYPE_I32;
      return true;
    default:
      return false;
  }
}

// Dimensions from the innermost one on. The first two of five become one. False: there are too many, or one is too
// large.
bool set_shape(st::ShapeView shape, TensorStorage& tensor) {
  std::int64_t dims[SD_MAX_DIMS];
  const auto is_large = [](std::uint64_t dim) { return dim > INT64_MAX; };
  if (shape.size() > SD_MAX_DIMS || std::any_of(shape.begin(), shape.end(), is_large)) return false;
  std::copy(shape.begin(), shape.end(), dims);
  std::int64_t* begin = dims;
  if (shape.size() == 5) {
    // An empty tensor may have dimensions of any size.
    if (dims[0] != 0 && dims[1] > std::numeric_limits<std::int64_t>::max() / dims[0]) return false;
    dims[1] *= dims[0];
    ++begin;
  }
  tensor.n_dims = std::max(static_cast<int>(dims + shape.size() - begin), 1);
  std::reverse_copy(begin, dims + shape.size(), tensor.ne);
  return true;
}

bool fail(std::string* error, const std::string& message) {
  if (error != nullptr) *error = message;
  return false;
}

}  // namespace

bool is_safetensors_file(const std::string& file_path) {
  return st::File::open(file_path).ok();
}

bool read_safetensors_file(const std::string& file_path, std::vector<TensorStorage>& tensor_storages,
                           std::string* error) {
  const st::Result<st::File> file = st::File::open(file_path);
  if (!file) return fail(error, file.error().to_string());
  tensor_storages.clear();
  for (const st::TensorInfo& info : file->header().tensors()) {
    if (info.dtype == st::Dtype::U8) continue;  // the engine has no use for them
    TensorStorage tensor;
    tensor.name = info.name;
    tensor.offset = info.file_offset;
    if (!set_type(info.dtype, tensor)) return fail(error, file_path + ": unsupported dtype of " + tensor.name);
    if (!set_shape(info.shape, tensor)) return fail(error, file_path + ": unsupported shape of " + tensor.name);
    tensor_storages.push_back(tensor);
  }
  return true;
}
