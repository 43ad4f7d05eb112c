// Bytes of an Array that nobody keeps.
#include <safetensors/safetensors.h>

std::byte first(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  return tensor.view().value().bytes()[0];  // expect: deleted
#else
  const safetensors::Array array = tensor.view().value();
  return array.bytes()[0];
#endif
}
