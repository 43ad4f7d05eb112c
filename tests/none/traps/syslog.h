#ifdef SAFETENSORS_TRAPS
#error "<syslog.h> belongs to a system: only the folders of src/os may include it"
#endif
#include_next <syslog.h>
