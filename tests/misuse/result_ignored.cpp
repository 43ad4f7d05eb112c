// Creating a Writer and ignoring the Result.
#include <safetensors/safetensors.h>

void create(const safetensors::Header& header) {
#ifdef MISUSE
  safetensors::Writer::create("a", header);  // expect: nodiscard
#else
  if (!safetensors::Writer::create("a", header)) return;
#endif
}
