// The shape belongs to the ResolvedSlice.
#include <safetensors/safetensors.h>

std::size_t rank(const safetensors::Slice& slice, safetensors::ShapeView shape) {
#ifdef MISUSE
  return slice.resolve(safetensors::Dtype::F32, shape).value().shape().rank();  // expect: deleted
#else
  const safetensors::ResolvedSlice resolved = slice.resolve(safetensors::Dtype::F32, shape).value();
  return resolved.shape().rank();
#endif
}
