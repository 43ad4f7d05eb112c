// The Status of commit() is ignored: the commit may have failed.
#include <safetensors/safetensors.h>

void finish(safetensors::Writer& writer) {
#ifdef MISUSE
  writer.commit();  // expect: nodiscard
#else
  if (!writer.commit()) return;
#endif
}
