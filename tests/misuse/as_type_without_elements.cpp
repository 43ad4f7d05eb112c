// No dtype has elements of type std::string. ElementOf lists the types of each dtype.
#include <safetensors/safetensors.h>

bool text(const safetensors::Array& array) {
#ifdef MISUSE
  return array.as<std::string>().ok();  // expect: ElementOf
#else
  return array.as<float>().ok();
#endif
}
