/* c_plan.h alone, as C99. */
#include <safetensors/c_plan.h>

safetensors_read_options plan_options(void);
safetensors_read_options plan_options(void) {
  const safetensors_checkpoint_options checkpoint = SAFETENSORS_CHECKPOINT_OPTIONS_INIT;
  const safetensors_add_options add = SAFETENSORS_ADD_OPTIONS_INIT;
  const safetensors_read_report_info info = SAFETENSORS_READ_REPORT_INFO_INIT;
  const safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  (void)checkpoint;
  (void)add;
  (void)info;
  return options;
}
