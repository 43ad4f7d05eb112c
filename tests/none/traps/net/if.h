#ifdef SAFETENSORS_TRAPS
#error "<net/if.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <net/if.h>
