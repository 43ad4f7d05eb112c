#ifdef SAFETENSORS_TRAPS
#error "<netinet/in.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <netinet/in.h>
