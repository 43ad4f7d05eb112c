#ifdef SAFETENSORS_TRAPS
#error "<sys/select.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <sys/select.h>
