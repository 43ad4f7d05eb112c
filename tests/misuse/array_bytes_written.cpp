// Writing to bytes(), which are read-only.
#include <safetensors/safetensors.h>

void clear(safetensors::Array& array) {
#ifdef MISUSE
  array.bytes()[0] = std::byte{0};  // expect: read-only|const
#else
  array.mutable_bytes().value()[0] = std::byte{0};
#endif
}
