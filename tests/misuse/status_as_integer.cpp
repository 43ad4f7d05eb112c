// A Status converts to bool only where a condition is asked for.
#include <safetensors/safetensors.h>

int code(safetensors::Writer& writer) {
#ifdef MISUSE
  return writer.commit();  // expect: convert|viable conversion
#else
  return writer.commit() ? 0 : 1;
#endif
}
