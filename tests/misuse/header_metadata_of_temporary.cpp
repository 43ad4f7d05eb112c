// Metadata points into its Header.
#include <safetensors/safetensors.h>

std::size_t pairs(std::string_view text) {
#ifdef MISUSE
  return safetensors::Header::parse(text, 0).value().metadata().size();  // expect: deleted
#else
  const safetensors::Header header = safetensors::Header::parse(text, 0).value();
  return header.metadata().size();
#endif
}
