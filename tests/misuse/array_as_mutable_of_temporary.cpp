// Writing elements of an Array that nobody keeps.
#include <safetensors/safetensors.h>

void clear(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  tensor.read().value().as_mutable<float>().value()[0] = 0;  // expect: deleted
#else
  safetensors::Array array = tensor.read().value();
  array.as_mutable<float>().value()[0] = 0;
#endif
}
