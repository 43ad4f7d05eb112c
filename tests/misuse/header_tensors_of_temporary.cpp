// A list of tensors points into its Header.
#include <safetensors/safetensors.h>

std::size_t count(std::string_view text) {
#ifdef MISUSE
  return safetensors::Header::parse(text, 0).value().tensors().size();  // expect: deleted
#else
  const safetensors::Header header = safetensors::Header::parse(text, 0).value();
  return header.tensors().size();
#endif
}
