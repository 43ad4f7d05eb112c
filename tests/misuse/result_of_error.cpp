// A Result whose value is an Error: nobody could distinguish it from a failure.
#include <safetensors/safetensors.h>

int answer() {
#ifdef MISUSE
  return safetensors::Result<safetensors::Error>(safetensors::Error{}).ok();  // expect: static assertion|static_assert
#else
  return safetensors::Result<int>(1).ok();
#endif
}
