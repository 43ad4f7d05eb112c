/* c_write.h alone, as C99. */
#include <safetensors/c_write.h>

safetensors_write_options write_options(void);
safetensors_write_options write_options(void) {
  const safetensors_edit_options edit = SAFETENSORS_EDIT_OPTIONS_INIT;
  const safetensors_layout_options layout = SAFETENSORS_LAYOUT_OPTIONS_INIT;
  const safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  (void)edit;
  const safetensors_file_contents file = {"model.safetensors", NULL, 0, NULL, 0};
  (void)layout;
  (void)file;
  return options;
}
