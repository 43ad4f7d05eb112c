// The contenders of bench/engines: functions that load all tensors of a file into memory, as an engine would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engines {

// The memory that a contender filled: one range per tensor, and whatever keeps the ranges alive.
struct Loaded {
  std::vector<std::pair<std::string, std::span<const std::byte>>> tensors;
  std::vector<std::shared_ptr<void>> owners;

  // Returns memory from malloc(), which belongs to this object.
  std::byte* allocate(std::size_t size) {
    owners.emplace_back(std::malloc(size == 0 ? 1 : size), std::free);
    return static_cast<std::byte*>(owners.back().get());
  }
};

struct Loop {
  const char* name;
  const char* says;
  bool ours;  // uses this library
  Loaded (*load)(const std::string& path);
};

// Each list is in a file of its own.
std::vector<Loop> our_loops();
std::vector<Loop> plain_loops();
#ifdef SAFETENSORS_BENCH_MLX
std::vector<Loop> mlx_loops();
#endif
#ifdef SAFETENSORS_BENCH_VLLM_CPP
std::vector<Loop> vllm_cpp_loops();
#endif
#ifdef SAFETENSORS_BENCH_SDCPP
std::vector<Loop> sdcpp_loops();
#endif

}  // namespace engines
