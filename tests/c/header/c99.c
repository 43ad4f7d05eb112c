/* c.h alone, as C99. Also safetensors.h, which is the same as c.h when it is compiled as C. */
#include <safetensors/c.h>
#include <safetensors/safetensors.h>

safetensors_open_options c99_options(void);
safetensors_open_options c99_options(void) {
  const safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  return options;
}
