// The loop that everybody writes first: the File is gone before the body runs.
#include <safetensors/safetensors.h>

std::uint64_t total(const char* path) {
  std::uint64_t bytes = 0;
#ifdef MISUSE
  for (const auto& info : safetensors::File::open(path).value().header().tensors())  // expect: deleted
    bytes += info.nbytes();
#else
  const safetensors::File file = safetensors::File::open(path).value();
  for (const auto& info : file.header().tensors()) bytes += info.nbytes();
#endif
  return bytes;
}
