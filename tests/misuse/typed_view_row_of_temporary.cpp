// A row lives as long as its view.
#include <safetensors/safetensors.h>

float first(const safetensors::File& file) {
#ifdef MISUSE
  const auto row = file.get<float>("w").value().row(0);  // expect: deleted
#else
  const auto view = file.get<float>("w").value();
  const auto row = view.row(0);
#endif
  return row.front();
}
