// The reader of vllm.cpp, by this library: one map per file, and pointers into it. Tensors of dtypes that the library
// does not know are bytes, because vllm.cpp unpacks such formats itself.
#include "vllm.h"

#include <safetensors/checkpoint.h>

#include <filesystem>
#include <stdexcept>

namespace st = safetensors;

namespace vllm {

SafetensorsFile SafetensorsFile::Open(const std::string& path) {
  const st::OpenOptions options{.access = st::Access::map, .parse = {.accept = {.unknown_dtypes = true}}};
  const st::File file = st::File::open(path, options).value();
  SafetensorsFile result;
  result.data_ = file.view().value();
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(result.data_.bytes().data());
  for (const st::Tensor& tensor : file) {
    std::string name(tensor.name());
    result.tensors_[name] = {std::string(file.header().dtype_name(tensor.info())),
                             {tensor.shape().begin(), tensor.shape().end()},
                             begin + tensor.info().begin,
                             static_cast<std::size_t>(tensor.nbytes())};
    result.names_.push_back(std::move(name));
  }
  for (const auto& [key, value] : file.metadata()) result.metadata_.emplace(key, value);
  return result;
}

const StTensor& SafetensorsFile::Get(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error("no tensor " + st::printable(name));
  return found->second;
}

bool SafetensorsFile::DiscardResidentPages() const noexcept {
  return data_.release().ok();
}

std::map<std::string, std::string> LoadSafetensorsIndex(const std::string& index_json_path) {
  const st::Checkpoint checkpoint = st::Checkpoint::open(index_json_path).value();  // checks all files, too
  const std::filesystem::path folder = std::filesystem::path(index_json_path).parent_path();
  std::map<std::string, std::string> files;
  for (const st::Tensor& tensor : checkpoint) {
    const st::File file = tensor.file();
    files.emplace(tensor.name(), std::filesystem::path(file.path()).lexically_relative(folder).string());
  }
  return files;
}

}  // namespace vllm
