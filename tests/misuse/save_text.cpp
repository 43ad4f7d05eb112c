// Elements of type char have no dtype of their own.
#include <safetensors/safetensors.h>

#include <vector>

bool write(const std::vector<char>& text, const std::vector<std::int8_t>& numbers) {
#ifdef MISUSE
  return safetensors::save("f", {{"t", {3}, text}}).ok() && !numbers.empty();  // expect: no dtype of their own
#else
  return safetensors::save("f", {{"t", {3}, numbers}}).ok() && !text.empty();
#endif
}
