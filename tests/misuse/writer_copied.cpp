// A Writer cannot be copied: only one Writer commits a file.
#include <safetensors/safetensors.h>

safetensors::Writer take(safetensors::Writer& writer) {
#ifdef MISUSE
  return writer;  // expect: deleted
#else
  return std::move(writer);
#endif
}
