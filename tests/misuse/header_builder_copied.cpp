// A builder is moved, not copied.
#include <safetensors/safetensors.h>

safetensors::HeaderBuilder take(safetensors::HeaderBuilder& builder) {
#ifdef MISUSE
  return builder;  // expect: deleted
#else
  return std::move(builder);
#endif
}
