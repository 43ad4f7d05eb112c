// Loads a file with the three adapters and prints what each engine then has, so that a test can compare it.
//
// Use:  engines mlx|vllm|sdcpp FILE      prints NAME DTYPE [SHAPE] CHECKSUM per tensor; FNV-1a, 32 bits
//       engines index INDEX              prints NAME FILE per tensor
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include "mlx.h"
#include "sdcpp.h"
#include "vllm.h"

namespace {

std::uint32_t checksum(const void* data, std::size_t size) {
  std::uint32_t hash = 2166136261U;
  const auto* const bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 16777619U;
  return hash;
}

template <class Shape>
void print(const std::string& name, const std::string& dtype, const Shape& shape, std::uint32_t hash) {
  std::cout << name << ' ' << dtype << " [";
  for (std::size_t i = 0; i < shape.size(); ++i) std::cout << (i > 0 ? ", " : "") << shape[i];
  std::cout << "] " << hash << '\n';
}

void load_mlx(const std::string& path) {
  mlx::core::SafetensorsLoad loaded = mlx::core::load_safetensors(path);
  for (auto& [name, array] : loaded.first) {
    array.eval();
    print(name, std::to_string(static_cast<int>(array.dtype())), array.shape(),
          checksum(array.data<char>(), array.nbytes()));
  }
  for (const auto& [key, value] : loaded.second) std::cout << key << '=' << value << '\n';
}

void load_vllm(const std::string& path) {
  const vllm::SafetensorsFile file = vllm::SafetensorsFile::Open(path);
  for (const std::string& name : file.Names()) {
    const vllm::StTensor& tensor = file.Get(name);
    const std::uint32_t before = checksum(tensor.data, tensor.nbytes);
    if (!file.DiscardResidentPages() || checksum(tensor.data, tensor.nbytes) != before)
      throw std::runtime_error("the pages did not come back");
    print(name, tensor.dtype, tensor.shape, before);
  }
  for (const auto& [key, value] : file.Metadata()) std::cout << key << '=' << value << '\n';
}

std::size_t bytes_in_file(const TensorStorage& tensor) {
  std::size_t size = tensor.is_f8_e4m3 || tensor.is_f8_e5m2                          ? 1
                     : tensor.is_f64 || tensor.is_i64                                ? 8
                     : tensor.type == GGML_TYPE_F16 || tensor.type == GGML_TYPE_BF16 ? 2
                                                                                     : 4;
  for (const std::int64_t n : tensor.ne) size *= static_cast<std::size_t>(n);
  return size;
}

void load_sdcpp(const std::string& path) {
  std::vector<TensorStorage> tensors;
  std::string error;
  if (is_safetensors_file(path) != read_safetensors_file(path, tensors, &error) &&
      error.find("unsupported") == std::string::npos)
    throw std::runtime_error("the two functions differ");
  if (!error.empty()) throw std::runtime_error(error);
  std::ifstream file(path, std::ios::binary);
  for (const TensorStorage& tensor : tensors) {
    std::string bytes(bytes_in_file(tensor), '\0');
    file.seekg(static_cast<std::streamoff>(tensor.offset));
    if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) throw std::runtime_error("too short");
    print(tensor.name, std::to_string(tensor.type), std::vector<std::int64_t>(tensor.ne, tensor.ne + tensor.n_dims),
          checksum(bytes.data(), bytes.size()));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view engine = argc == 3 ? argv[1] : "";
  if (engine == "mlx")
    load_mlx(argv[2]);
  else if (engine == "vllm")
    load_vllm(argv[2]);
  else if (engine == "sdcpp")
    load_sdcpp(argv[2]);
  else if (engine == "index")
    for (const auto& [name, file] : vllm::LoadSafetensorsIndex(argv[2])) std::cout << name << ' ' << file << '\n';
  else
    std::cerr << "usage: " << argv[0] << " mlx|vllm|sdcpp|index FILE\n";
  return engine.empty() ? 2 : 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
