// The Tensor keeps the memory of its ShapeView alive.
#include <safetensors/safetensors.h>

std::size_t rank(const safetensors::File& file) {
#ifdef MISUSE
  return file.tensor("a").value().shape().size();  // expect: deleted
#else
  const safetensors::Tensor tensor = file.tensor("a").value();
  return tensor.shape().size();
#endif
}
