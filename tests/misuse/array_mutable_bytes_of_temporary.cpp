// Writing into an Array that nobody keeps.
#include <safetensors/safetensors.h>

bool fill(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  return tensor.read().value().mutable_bytes().ok();  // expect: deleted
#else
  safetensors::Array array = tensor.read().value();
  return array.mutable_bytes().ok();
#endif
}
