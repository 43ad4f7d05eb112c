// Splits a layer over four ranks. Each rank reads only its slices of the weights, with one plan, and casts them to F32.
// Then each rank computes its part of  y = down * relu(up * x),  and the parts are added.
//
// The ranks are threads here, so that the example needs nothing else. As processes or machines they would do the same:
// each opens the model itself, and an all-reduce adds the parts.
//
// Build:  c++ -std=c++20 -O2 tensor_parallel.cpp -o tensor_parallel -pthread $(pkg-config --cflags --libs safetensors)
// Run:    ./tensor_parallel model.safetensors         a file, an index or a folder, with the tensors
//                                                     up.weight [inner, width] and down.weight [width, inner]
#include <safetensors/safetensors.h>

#include <cstdint>
#include <exception>
#include <future>
#include <iostream>
#include <string>
#include <vector>

namespace st = safetensors;

constexpr std::uint64_t kWorld = 4;  // number of ranks

struct Part {
  std::string report;
  std::vector<float> y;
};

Part run_rank(const st::Checkpoint& model, std::uint64_t rank) {
  // Rows of the first weight, columns of the second: no rank needs an element of another.
  st::ReadPlan plan;
  plan.add(model["up.weight"], st::Slice::shard(0, rank, kWorld), {}, st::Dtype::F32).value();
  plan.add(model["down.weight"], st::Slice::shard(1, rank, kWorld), {}, st::Dtype::F32).value();
  const st::ReadResult weights = plan.execute({.threads = 1}).value();
  const auto up = weights["up.weight"].get<float>().value();
  const auto down = weights["down.weight"].get<float>().value();

  Part part{to_string(weights["up.weight"]) + " and " + to_string(weights["down.weight"]),
            std::vector<float>(down.shape()[0])};
  for (std::size_t i = 0; i < up.shape()[0]; ++i) {
    float inner = 0;
    for (const float weight : up.row(i)) inner += weight;  // x is a vector of ones
    if (inner <= 0) continue;                              // relu
    for (std::size_t row = 0; row < part.y.size(); ++row) part.y[row] += down(row, i) * inner;
  }
  return part;
}

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " MODEL\n";
    return 2;
  }
  const st::Checkpoint model = st::Checkpoint::open(argv[1]).value();
  std::vector<std::future<Part>> ranks;
  for (std::uint64_t rank = 0; rank < kWorld; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] { return run_rank(model, rank); }));

  std::vector<float> y;
  for (std::uint64_t rank = 0; rank < kWorld; ++rank) {
    const Part part = ranks[rank].get();
    std::cout << "rank " << rank << ": " << part.report << '\n';
    y.resize(part.y.size());
    for (std::size_t row = 0; row < y.size(); ++row) y[row] += part.y[row];
  }
  std::cout << "y:";
  for (const float value : y) std::cout << ' ' << value;
  std::cout << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
