/* c_simple.h alone, as C99. */
#include <safetensors/c_simple.h>

safetensors_named_tensor simple_tensor(const float* data);
safetensors_named_tensor simple_tensor(const float* data) {
  const safetensors_named_tensor tensor = {"w", SAFETENSORS_DTYPE_F32, 2, {2, 3}, data, 6 * sizeof *data};
  const size_t any = SAFETENSORS_ANY_RANK;
  (void)any;
  return tensor;
}
