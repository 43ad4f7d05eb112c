#ifdef SAFETENSORS_TRAPS
#error "<arpa/inet.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <arpa/inet.h>
