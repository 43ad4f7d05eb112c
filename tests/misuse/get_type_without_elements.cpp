// No dtype has elements of this type. The message lists the types that exist.
#include <safetensors/safetensors.h>

struct Pixel {
  float red, green, blue;
};

bool look(const safetensors::File& file) {
#ifdef MISUSE
  return file.get<Pixel>("w").ok();  // expect: use float, double, bool, char
#else
  return file.get<float>("w").ok();
#endif
}
