#ifdef SAFETENSORS_TRAPS
#error "<sys/types.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <sys/types.h>
