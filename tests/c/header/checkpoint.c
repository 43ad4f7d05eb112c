/* c_checkpoint.h alone, as C99. */
#include <safetensors/c_checkpoint.h>

safetensors_checkpoint_write_options checkpoint_write_options(void);
safetensors_checkpoint_write_options checkpoint_write_options(void) {
  const safetensors_checkpoint_layout_options layout = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  const safetensors_checkpoint_write_options options = SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT;
  const safetensors_layout_tensor tensor = {"w", 1, NULL, 0, 0, 0, SAFETENSORS_DTYPE_F32, 0};
  (void)layout;
  (void)tensor;
  return options;
}
