// The Source belongs to the File.
#include <safetensors/safetensors.h>

bool sized(const safetensors::Tensor& tensor) {
#ifdef MISUSE
  return tensor.file().source().size().ok();  // expect: deleted
#else
  const safetensors::File file = tensor.file();
  return file.source().size().ok();
#endif
}
