// The Tensor keeps the memory of its TensorInfo alive.
#include <safetensors/safetensors.h>

std::uint64_t offset(const safetensors::File& file) {
#ifdef MISUSE
  return file.tensor("a").value().info().file_offset;  // expect: deleted
#else
  const safetensors::Tensor tensor = file.tensor("a").value();
  return tensor.info().file_offset;
#endif
}
