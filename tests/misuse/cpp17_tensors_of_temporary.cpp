// C++17: a loop over the tensors of a File that is destroyed before the first pass.
#include <safetensors/safetensors.hpp>

unsigned long long sum(const char* path) {
  unsigned long long bytes = 0;
#ifdef MISUSE
  for (const auto& info : safetensors17::File::open(path).value().tensors()) bytes += info.nbytes();  // expect: deleted
#else
  const safetensors17::File file = safetensors17::File::open(path).value();
  for (const auto& info : file.tensors()) bytes += info.nbytes();
#endif
  return bytes;
}
