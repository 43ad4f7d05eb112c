// The Header belongs to the File.
#include <safetensors/safetensors.h>

const safetensors::Header& header(const char* path, safetensors::Result<safetensors::File>& file) {
  file = safetensors::File::open(path);
#ifdef MISUSE
  return safetensors::File::open(path).value().header();  // expect: deleted
#else
  return file.value().header();
#endif
}
