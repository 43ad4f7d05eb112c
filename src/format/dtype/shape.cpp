// The text of a shape. It shows at most 8 of many dimensions, because a hostile header can have millions of them.
#include <safetensors/shape.h>

#include "base/error.h"

namespace safetensors {
inline namespace v0 {

std::string to_string(ShapeView shape) {
  constexpr std::size_t kMaxShown = 16;  // shapes with at most this many dimensions are shown whole
  constexpr std::size_t kShown = 8;
  const std::size_t shown = shape.size() > kMaxShown ? kShown : shape.size();
  std::string text = "[";
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  if (shown < shape.size()) text += ", ... " + std::to_string(shape.size()) + " dimensions";
  return base::concat({text, "]"});
}

}  // namespace v0
}  // namespace safetensors
