// Measures the file reader of MLX (mlx/io/load.cpp of a checkout). The loop works like the primitive of MLX that loads
// an array on a CPU: it allocates each tensor and queues its read in the pool of MLX. Names and offsets come from
// this library, because the parser of MLX needs all of MLX.
#include <safetensors/safetensors.h>

#include <future>

#include "../bench.h"
#include "loops.h"
#include "mlx/io/load.h"

namespace engines {
namespace {

Loaded load(const std::string& path) {
  const safetensors::File file = bench::must(safetensors::File::open(path));
  mlx::core::io::ParallelFileReader reader(path);
  Loaded loaded;
  std::vector<std::future<void>> reads;
  for (const safetensors::TensorInfo& info : file.header().tensors()) {
    const std::size_t size = info.nbytes();
    std::byte* const memory = loaded.allocate(size);
    loaded.tensors.emplace_back(info.name, std::span(memory, size));
    reads.push_back(mlx::core::io::thread_pool().enqueue([&reader, memory, size, offset = info.file_offset] {
      reader.read(reinterpret_cast<char*>(memory), size, static_cast<std::size_t>(offset));
    }));
  }
  for (std::future<void>& read : reads) read.get();
  return loaded;
}

}  // namespace

std::vector<Loop> mlx_loops() {
  return {{"mlx", "MLX: its reader and its pool, malloc per tensor", false, load}};
}

}  // namespace engines
