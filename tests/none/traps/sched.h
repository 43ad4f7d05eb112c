#ifdef SAFETENSORS_TRAPS
#error "<sched.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <sched.h>
