// The bytes belong to the Array.
#include <safetensors/safetensors.h>

std::size_t size(safetensors::Span<const safetensors::TensorData> tensors) {
#ifdef MISUSE
  return safetensors::serialize(tensors).value().bytes().size();  // expect: deleted
#else
  const safetensors::Array file = safetensors::serialize(tensors).value();
  return file.bytes().size();
#endif
}
