// A Status converts to bool in conditions only.
#include <safetensors/safetensors.h>

int code(safetensors::Writer& writer) {
#ifdef MISUSE
  return writer.commit();  // expect: convert|viable conversion
#else
  return writer.commit() ? 0 : 1;
#endif
}
