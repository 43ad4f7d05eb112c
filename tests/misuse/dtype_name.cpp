// The name of a dtype: the function has the name that it has for every other enum.
#include <safetensors/safetensors.h>

std::string_view text(safetensors::Dtype dtype) {
#ifdef MISUSE
  return safetensors::name(dtype);  // expect: deleted
#else
  return safetensors::to_string(dtype);
#endif
}
