// A tensor that the builder may have refused.
#include <safetensors/safetensors.h>

void add(safetensors::HeaderBuilder& builder) {
#ifdef MISUSE
  builder.add("a", safetensors::Dtype::F32, {2, 3});  // expect: nodiscard
#else
  if (!builder.add("a", safetensors::Dtype::F32, {2, 3})) return;
#endif
}
