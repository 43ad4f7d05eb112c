// Writing to the elements of a const Array.
#include <safetensors/safetensors.h>

bool clear([[maybe_unused]] const safetensors::Array& shared, safetensors::Array& own) {
#ifdef MISUSE
  return shared.as_mutable<float>().ok();  // expect: no matching
#else
  return own.as_mutable<float>().ok();
#endif
}
