// C++17: bytes of a file as bool, whose other values than 0 and 1 are undefined behaviour.
#include <safetensors/safetensors.hpp>

bool first(const safetensors17::Array& array) {
#ifdef MISUSE
  return array.as<bool>().value()[0];  // expect: no dtype has elements of this type
#else
  return array.as<std::uint8_t>().value()[0] != 0;
#endif
}
