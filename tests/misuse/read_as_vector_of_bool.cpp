// std::vector<bool> has no elements in memory that a read could fill.
#include <safetensors/safetensors.h>

bool look(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  return tensor.read_as<bool>().ok();  // expect: std::vector<bool>
#else
  return tensor.read_as<std::uint8_t>().ok();
#endif
}
