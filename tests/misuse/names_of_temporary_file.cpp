// The names point into the header, which the last copy of the File keeps.
#include <safetensors/safetensors.h>

std::size_t count() {
#ifdef MISUSE
  return safetensors::File::open("f").value().names().size();  // expect: deleted
#else
  const safetensors::File file = safetensors::File::open("f").value();
  return file.names().size();
#endif
}
