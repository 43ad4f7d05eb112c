// C++17: a view of a File that is destroyed at the end of the line.
#include <safetensors/safetensors.hpp>

const void* data(const safetensors17::Tensor& tensor) {
#ifdef MISUSE
  return tensor.view()->data();  // expect: deleted
#else
  static const safetensors17::Result<safetensors17::Array> array = tensor.view();
  return array->data();
#endif
}
