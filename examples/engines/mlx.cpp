// MLX's function load_safetensors(), by this library. As in MLX, no tensor is read before somebody needs its elements:
// each array has a primitive that reads it then, straight into the memory of the array.
#include "mlx.h"

#include <safetensors/file.h>

#include <stdexcept>

namespace st = safetensors;

namespace mlx::core {
namespace {

class LoadTensor final : public Primitive {
 public:
  explicit LoadTensor(st::Tensor tensor) : tensor_(std::move(tensor)) {}
  void eval_cpu(const std::vector<array>&, array& out) override {
    tensor_.read_into({out.data<std::byte>(), out.nbytes()}).value();
  }

 private:
  st::Tensor tensor_;  // keeps the file open
};

Dtype to_dtype(const st::Tensor& tensor) {
  switch (tensor.dtype()) {
    case st::Dtype::BOOL:
      return Dtype::bool_;
    case st::Dtype::U8:
      return Dtype::uint8;
    case st::Dtype::U16:
      return Dtype::uint16;
    case st::Dtype::U32:
      return Dtype::uint32;
    case st::Dtype::U64:
      return Dtype::uint64;
    case st::Dtype::I8:
      return Dtype::int8;
    case st::Dtype::I16:
      return Dtype::int16;
    case st::Dtype::I32:
      return Dtype::int32;
    case st::Dtype::I64:
      return Dtype::int64;
    case st::Dtype::F16:
      return Dtype::float16;
    case st::Dtype::F32:
      return Dtype::float32;
    case st::Dtype::BF16:
      return Dtype::bfloat16;
    case st::Dtype::C64:
      return Dtype::complex64;
    default:
      throw std::runtime_error("[load_safetensors] " + st::printable(tensor.name()) + " has an unsupported dtype, " +
                               std::string(to_string(tensor.dtype())));
  }
}

}  // namespace

SafetensorsLoad load_safetensors(const std::string& path) {
  const st::File file = st::File::open(path, {.access = st::Access::read}).value();
  SafetensorsLoad loaded;
  for (const st::Tensor& tensor : file) {
    const Shape shape(tensor.shape().begin(), tensor.shape().end());
    loaded.first.insert({std::string(tensor.name()),
                         array(shape, to_dtype(tensor), std::make_shared<LoadTensor>(tensor), std::vector<array>{})});
  }
  for (const auto& [key, value] : file.metadata()) loaded.second.emplace(key, value);
  return loaded;
}

}  // namespace mlx::core
