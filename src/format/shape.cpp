#include <safetensors/shape.h>

namespace safetensors {
inline namespace v0 {

std::string to_string(ShapeView shape) {
  constexpr std::size_t kLong = 16;
  constexpr std::size_t kShown = 8;
  const std::size_t shown = shape.size() > kLong ? kShown : shape.size();
  std::string text = "[";
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  if (shown < shape.size()) text += ", ... " + std::to_string(shape.size()) + " dimensions";
  return text + "]";
}

}  // namespace v0
}  // namespace safetensors
