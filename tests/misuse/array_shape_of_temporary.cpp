// The shape of an Array that nobody keeps.
#include <safetensors/safetensors.h>

std::uint64_t rows(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  return tensor.read().value().shape()[0];  // expect: deleted
#else
  const safetensors::Array array = tensor.read().value();
  return array.shape()[0];
#endif
}
