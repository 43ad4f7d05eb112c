// A view of a file is read-only.
#include <safetensors/safetensors.h>

void change(const safetensors::File& file) {
  const auto view = file.get<float>("w").value();
#ifdef MISUSE
  view(0, 0) = 1;  // expect: lvalue|assignable
#else
  (void)view(0, 0);
#endif
}
