// A pointer into a Result that is gone at the semicolon.
#include <safetensors/safetensors.h>

std::size_t tensors(const safetensors::File& file) {
#ifdef MISUSE
  return file.tensor("a")->shape().size();  // expect: deleted
#else
  const auto tensor = file.tensor("a");
  return tensor->shape().size();
#endif
}
