#ifdef SAFETENSORS_TRAPS
#error "<sys/file.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <sys/file.h>
