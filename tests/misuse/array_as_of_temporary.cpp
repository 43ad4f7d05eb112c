// Elements of an Array that nobody keeps.
#include <safetensors/safetensors.h>

float first(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  return tensor.view().value().as<float>().value()[0];  // expect: deleted
#else
  const safetensors::Array array = tensor.view().value();
  return array.as<float>().value()[0];
#endif
}
