// One line of text per tensor. Names come from strangers, so they are escaped.
#include <safetensors/print.h>

namespace safetensors {
inline namespace v0 {

std::string to_string(const TensorInfo& tensor) {
  return printable(tensor.name) + " " + std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape);
}

std::string to_string(const Array& array) {
  return std::string(to_string(array.dtype())) + " " + to_string(ShapeView(array.shape()));
}

}  // namespace v0
}  // namespace safetensors
