// A temporary built-in array is gone before save(). A temporary std::vector is moved into the NamedTensor.
#include <safetensors/safetensors.h>

#include <vector>

safetensors::Status write() {
  using Two = float[2];
  const Two elements = {1, 2};
#ifdef MISUSE
  return safetensors::save("a", {{"w", {2}, Two{elements[0], 2}}});  // expect: deleted
#else
  return safetensors::save("a", {{"w", {2}, elements}, {"v", {2}, std::vector<float>{1, 2}}});
#endif
}
