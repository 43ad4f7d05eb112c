// Reads a whole model into one block of memory of an engine, and lists it. C++17 without exceptions.
//
// Build:  c++ -std=c++17 -fno-exceptions -fno-rtti engine17.cpp -o engine17 $(pkg-config --cflags --libs safetensors)
// Run:    ./engine17 model.safetensors       or a folder, an index, a pattern
#include <safetensors/safetensors.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace st = safetensors17;

static std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

static st::Status load(const char* path) {
  const st::Result<st::Checkpoint> model = st::Checkpoint::open(path);  // reads and checks the headers only
  if (!model) return model.error();

  std::uint64_t bytes = 1;  // malloc(0) may return NULL
  for (const st::TensorInfo& info : model->tensors()) bytes += aligned(info.nbytes());
  if (bytes > SIZE_MAX) return st::Error(SAFETENSORS_ERROR_OUT_OF_MEMORY, "the model does not fit in memory");
  const std::unique_ptr<char, void (*)(void*)> block(static_cast<char*>(std::malloc(static_cast<std::size_t>(bytes))),
                                                     std::free);
  if (!block) return st::Error(SAFETENSORS_ERROR_OUT_OF_MEMORY, "the model does not fit in memory");

  st::Result<st::ReadPlan> plan = st::ReadPlan::create();
  if (!plan) return plan.error();
  char* next = block.get();
  for (const st::TensorInfo& info : model->tensors()) {
    const st::Result<st::Tensor> tensor = model->tensor(info.name());
    if (!tensor) return tensor.error();
    const auto size = static_cast<std::size_t>(info.nbytes());
    if (st::Status status = plan->add(*tensor, st::AddOptions().into(next, size)); !status) return status;
    std::printf("%s %s", st::printable(info.name()).c_str(), std::string(st::to_string(info.dtype())).c_str());
    for (const std::uint64_t dim : info.shape()) std::printf(" %llu", static_cast<unsigned long long>(dim));
    std::printf("\n");
    next += aligned(size);
  }
  if (st::Result<st::ReadResult> read = plan->execute(); !read) return read.error();
  std::printf("%zu bytes of memory are filled\n", static_cast<std::size_t>(next - block.get()));
  return {};
}

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const st::Status status = load(argv[1]);
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
