// C++17: a caller ignores the Status of a call.
#include <safetensors/safetensors.hpp>

void read(const safetensors17::Tensor& tensor, float* memory) {
#ifdef MISUSE
  tensor.read_into(memory, sizeof(float));  // expect: nodiscard
#else
  if (!tensor.read_into(memory, sizeof(float))) return;
#endif
}
