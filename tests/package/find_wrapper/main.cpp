// Writes a file and looks for its tensor through the wrapper.
#include <wrapper.h>

#include <array>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::array<std::byte, 2> bytes{};
  const std::array<std::uint64_t, 1> shape = {2};
  const safetensors::TensorData tensor = {"a", safetensors::Dtype::U8, shape, bytes};
  if (!safetensors::save(argv[1], {&tensor, 1})) return 1;
  return has_tensor(argv[1], "a") && !has_tensor(argv[1], "b") ? 0 : 1;
}
