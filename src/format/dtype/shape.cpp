// The text of a shape, and the check of dimensions that become integers of another type. The text shows at most 8 of
// many dimensions, because a hostile header can have millions of them.
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
  return text + "]";
}

Status Shape::check(ShapeView shape, std::uint64_t max, std::size_t count) noexcept {
  return base::guarded([&]() -> Status {
    if (shape.size() != count)
      return base::make_error(Errc::invalid_argument, "the shape has " + std::to_string(shape.size()) +
                                                          " dimensions, `dims` has " + std::to_string(count) +
                                                          " values");
    for (std::size_t dim = 0; dim < count; ++dim)
      if (shape[dim] > max)
        return base::make_error(Errc::size_overflow, "dimension " + std::to_string(dim) + " of the shape " +
                                                         to_string(shape) + " is " + std::to_string(shape[dim]) +
                                                         ", the maximum is " + std::to_string(max));
    return {};
  });
}

}  // namespace v0
}  // namespace safetensors
