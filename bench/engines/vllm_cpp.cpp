// The reader of vllm.cpp (safetensors_reader.cpp of a checkout): it parses the header, maps the file, and releases the
// pages of the map after each copy, as the loaders of its models do. The copy to memory from malloc is here.
#include <cstring>

#include "loops.h"
#include "vllm/model_executor/model_loader/safetensors_reader.h"

namespace engines {
namespace {

Loaded load(const std::string& path) {
  const vllm::SafetensorsFile file = vllm::SafetensorsFile::Open(path);
  Loaded loaded;
  for (const std::string& name : file.Names()) {
    const vllm::StTensor& tensor = file.Get(name);
    std::byte* const memory = loaded.allocate(tensor.nbytes);
    std::memcpy(memory, tensor.data, tensor.nbytes);
    vllm::MaybeReleaseSourcePages(tensor.data, tensor.nbytes);
    loaded.tensors.emplace_back(name, std::span(memory, tensor.nbytes));
  }
  return loaded;
}

}  // namespace

std::vector<Loop> vllm_cpp_loops() {
  return {{"vllm_cpp", "vllm.cpp: its reader, malloc and memcpy per tensor", false, load}};
}

}  // namespace engines
