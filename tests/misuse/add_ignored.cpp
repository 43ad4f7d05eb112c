// The Status of add() is ignored: the builder may have refused the tensor.
#include <safetensors/safetensors.h>

void add(safetensors::HeaderBuilder& builder) {
#ifdef MISUSE
  builder.add("a", safetensors::Dtype::F32, {2, 3});  // expect: nodiscard
#else
  if (!builder.add("a", safetensors::Dtype::F32, {2, 3})) return;
#endif
}
