// The class SafetensorsFile of vllm.cpp, with its public interface. Only its members are others: they are this
// library's.
#pragma once

#include <safetensors/file.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vllm {

struct StTensor {
  std::string dtype;  // the text of the header, also of dtypes that nobody knows
  std::vector<std::int64_t> shape;
  const std::uint8_t* data = nullptr;  // in the map of the file
  std::size_t nbytes = 0;
};

class SafetensorsFile {
 public:
  static SafetensorsFile Open(const std::string& path);

  const std::vector<std::string>& Names() const { return names_; }
  const StTensor& Get(const std::string& name) const;
  const std::map<std::string, std::string>& Metadata() const { return metadata_; }
  bool DiscardResidentPages() const noexcept;

 private:
  safetensors::Array data_;  // all bytes behind the header: a view of the file, which it keeps mapped
  std::vector<std::string> names_;
  std::map<std::string, StTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Returns the name of the file of each tensor.
std::map<std::string, std::string> LoadSafetensorsIndex(const std::string& index_json_path);

}  // namespace vllm
