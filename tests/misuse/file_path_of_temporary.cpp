// The path belongs to the File.
#include <safetensors/safetensors.h>

std::size_t length(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  return tensor.file().path().size();  // expect: deleted
#else
  const safetensors::File file = tensor.file();
  return file.path().size();
#endif
}
