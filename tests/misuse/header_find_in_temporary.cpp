// The pointer that find() returns points into the Header.
#include <safetensors/safetensors.h>

bool has(std::string_view text) {
#ifdef MISUSE
  return safetensors::Header::parse(text, 0).value().find("a") != nullptr;  // expect: deleted
#else
  const safetensors::Header header = safetensors::Header::parse(text, 0).value();
  return header.find("a") != nullptr;
#endif
}
