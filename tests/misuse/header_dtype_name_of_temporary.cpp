// The text of dtype_name() is in the Header.
#include <safetensors/safetensors.h>

std::size_t length(std::string_view text, const safetensors::TensorInfo& info) {
#ifdef MISUSE
  return safetensors::Header::parse(text, 0).value().dtype_name(info).size();  // expect: deleted
#else
  const safetensors::Header header = safetensors::Header::parse(text, 0).value();
  return header.dtype_name(info).size();
#endif
}
