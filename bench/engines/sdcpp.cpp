// The reader of stable-diffusion.cpp (safetensors_io.cpp of a checkout): it parses the header. The loop of its
// ModelLoader needs ggml and most of the engine. So the loop here does what that loop does without a map: each thread
// has a std::ifstream and takes the next tensor, and its bytes go to memory from malloc.
#include <atomic>
#include <fstream>
#include <thread>

#include "../bench.h"
#include "loops.h"
#include "model_io/safetensors_io.h"

namespace engines {
namespace {

template <unsigned threads>
Loaded load(const std::string& path) {
  std::vector<TensorStorage> storages;
  std::string error;
  bench::require(read_safetensors_file(path, storages, &error), "read_safetensors_file");
  Loaded loaded;
  for (const TensorStorage& storage : storages) {
    const auto size = static_cast<std::size_t>(storage.nbytes_to_read());
    loaded.tensors.emplace_back(storage.name, std::span(loaded.allocate(size), size));
  }
  std::atomic<std::size_t> next{0};
  const auto read = [&] {
    std::ifstream file(path, std::ios::binary);
    for (std::size_t i = next++; i < storages.size(); i = next++) {
      const std::span<const std::byte> memory = loaded.tensors[i].second;
      file.seekg(static_cast<std::streamoff>(storages[i].offset));
      file.read(reinterpret_cast<char*>(const_cast<std::byte*>(memory.data())),
                static_cast<std::streamsize>(memory.size()));
      bench::require(file.good(), "ifstream");
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(read);
  read();
  for (std::thread& helper : helpers) helper.join();
  return loaded;
}

}  // namespace

std::vector<Loop> sdcpp_loops() {
  return {{"sdcpp_1", "stable-diffusion.cpp: its parser, ifstream, 1 thread", false, load<1>},
          {"sdcpp_2", "stable-diffusion.cpp: its parser, ifstream, 2 threads", false, load<2>}};
}

}  // namespace engines
