// A temporary container as the destination: nobody would see the elements.
#include <safetensors/safetensors.h>

#include <vector>

bool read(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  return tensor.read_into(std::vector<std::byte>(8)).ok();  // expect: convert|viable conversion|no matching|could not
#else
  std::vector<std::byte> bytes(8);
  return tensor.read_into(bytes).ok();
#endif
}
