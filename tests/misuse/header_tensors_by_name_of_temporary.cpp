// A list of tensors points into its Header.
#include <safetensors/safetensors.h>

bool listed(std::string_view text) {
#ifdef MISUSE
  return safetensors::Header::parse(text, 0).value().tensors_by_name().ok();  // expect: deleted
#else
  const safetensors::Header header = safetensors::Header::parse(text, 0).value();
  return header.tensors_by_name().ok();
#endif
}
