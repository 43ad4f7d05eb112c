// A caller ignores the Status of a call.
#include <safetensors/safetensors.h>

void write(safetensors::Writer& writer, safetensors::Span<const std::byte> bytes) {
#ifdef MISUSE
  writer.write("a", 0, bytes);  // expect: nodiscard
#else
  if (!writer.write("a", 0, bytes)) return;
#endif
}
