// The elements live as long as a view. A temporary view ends with the expression.
#include <safetensors/safetensors.h>

float last(const safetensors::File& file) {
#ifdef MISUSE
  const auto values = file.get<float>("w").value().span();  // expect: deleted
#else
  const auto view = file.get<float>("w").value();
  const auto values = view.span();
#endif
  return values.back();
}
