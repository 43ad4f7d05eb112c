// C++17: elements of an Array that is destroyed at the end of the statement.
#include <safetensors/safetensors.hpp>

float first(const safetensors17::Tensor& tensor) {
#ifdef MISUSE
  return tensor.read().value().as<float>().value()[0];  // expect: deleted
#else
  const safetensors17::Array array = tensor.read().value();
  return array.as<float>().value()[0];
#endif
}
