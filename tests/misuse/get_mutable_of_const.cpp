// A const array gives no writable view.
#include <safetensors/safetensors.h>

bool write(const safetensors::Array& array) {
#ifdef MISUSE
  return array.get_mutable<float>().ok();  // expect: no matching (member )?function
#else
  return array.get<float>().ok();
#endif
}
