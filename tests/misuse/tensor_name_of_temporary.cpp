// The Tensor keeps the memory of its name alive.
#include <safetensors/safetensors.h>

std::size_t length(const safetensors::File& file) {
#ifdef MISUSE
  return file.tensor("a").value().name().size();  // expect: deleted
#else
  const safetensors::Tensor tensor = file.tensor("a").value();
  return tensor.name().size();
#endif
}
