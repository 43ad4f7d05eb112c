// A const temporary cannot be moved into a NamedTensor, and is gone before save().
#include <safetensors/safetensors.h>

#include <vector>

using Elements = const std::vector<float>;
Elements make();

safetensors::NamedTensor tensor(Elements& elements) {
#ifdef MISUSE
  return {"w", {2}, static_cast<Elements&&>(elements)};  // expect: deleted
#else
  return {"w", {2}, elements};
#endif
}
