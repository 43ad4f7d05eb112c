// No dtype has the elements of a std::string; ElementOf says which has what.
#include <safetensors/safetensors.h>

bool text(const safetensors::Array& array) {
#ifdef MISUSE
  return array.as<std::string>().ok();  // expect: ElementOf
#else
  return array.as<float>().ok();
#endif
}
