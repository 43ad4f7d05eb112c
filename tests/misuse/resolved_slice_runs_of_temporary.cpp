// Runs walk over a ResolvedSlice, which must outlive them.
#include <safetensors/safetensors.h>

bool any(const safetensors::Slice& slice, safetensors::ShapeView shape) {
  safetensors::ByteRun run;
#ifdef MISUSE
  return slice.resolve(safetensors::Dtype::F32, shape).value().runs().next(run);  // expect: deleted
#else
  const safetensors::ResolvedSlice resolved = slice.resolve(safetensors::Dtype::F32, shape).value();
  return resolved.runs().next(run);
#endif
}
