// The Header belongs to the Writer.
#include <safetensors/safetensors.h>

std::size_t count(const safetensors::Header& header) {
#ifdef MISUSE
  return safetensors::Writer::create("a", header).value().header().size();  // expect: deleted
#else
  const safetensors::Writer writer = safetensors::Writer::create("a", header).value();
  return writer.header().size();
#endif
}
