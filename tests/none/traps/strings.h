#ifdef SAFETENSORS_TRAPS
#error "<strings.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <strings.h>
