// Stand-ins for the types of MLX that its loader uses. They have the names and signatures of MLX, and only the
// behaviour that the loader needs. In MLX, include mlx/io.h and mlx/primitives.h instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mlx::core {

enum class Dtype {
  bool_,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  float16,
  float32,
  bfloat16,
  complex64
};
constexpr std::size_t size_of(Dtype dtype) {
  constexpr std::size_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 2, 8};
  return sizes[static_cast<int>(dtype)];
}
using Shape = std::vector<std::int32_t>;

class array;

// An operation that makes the elements of an array when somebody needs them.
class Primitive {
 public:
  Primitive() = default;
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;
  virtual ~Primitive() = default;
  virtual void eval_cpu(const std::vector<array>& inputs, array& out) = 0;
};

class array {
 public:
  array(Shape shape, Dtype dtype, std::shared_ptr<Primitive> primitive, std::vector<array> inputs)
      : shape_(std::move(shape)), dtype_(dtype), primitive_(std::move(primitive)), inputs_(std::move(inputs)) {}
  const Shape& shape() const { return shape_; }
  Dtype dtype() const { return dtype_; }
  std::size_t nbytes() const {
    std::size_t bytes = size_of(dtype_);
    for (const std::int32_t size : shape_) bytes *= static_cast<std::size_t>(size);
    return bytes;
  }
  void eval() {
    data_ = std::make_shared<std::vector<char>>(nbytes());
    primitive_->eval_cpu(inputs_, *this);
  }
  template <class T>
  T* data() {
    return reinterpret_cast<T*>(data_->data());
  }

 private:
  Shape shape_;
  Dtype dtype_;
  std::shared_ptr<Primitive> primitive_;
  std::vector<array> inputs_;
  std::shared_ptr<std::vector<char>> data_;
};

using SafetensorsLoad = std::pair<std::unordered_map<std::string, array>, std::unordered_map<std::string, std::string>>;
SafetensorsLoad load_safetensors(const std::string& file);

}  // namespace mlx::core
