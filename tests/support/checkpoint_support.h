// Writes checkpoints of several files.
#pragma once

#include <safetensors/checkpoint.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/file_support.h"

namespace safetensors::test {

// Returns the bytes of a file of U8 tensors. Each pair is a name and the bytes of the tensor.
inline std::string u8_file(const std::vector<std::pair<std::string, std::string>>& tensors) {
  std::string header = "{";
  std::string data;
  for (const auto& [name, bytes] : tensors) {
    if (header.size() > 1) header += ',';
    header += "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(bytes.size()) + "],\"data_offsets\":[" +
              std::to_string(data.size()) + ",";
    data += bytes;
    header += std::to_string(data.size()) + "]}";
  }
  return file_bytes(header + "}", data);
}

inline std::string index_text(const std::vector<std::pair<std::string, std::string>>& weight_map) {
  std::string text = "{\"metadata\": {\"total_size\": 1},\n \"weight_map\": {";
  for (std::size_t i = 0; i < weight_map.size(); ++i)
    text += (i == 0 ? "\n  \"" : ",\n  \"") + weight_map[i].first + "\": \"" + weight_map[i].second + "\"";
  return text + "}}\n";
}

inline std::string numbered(std::string_view prefix, std::size_t index) {
  const std::string digits = std::to_string(index);
  return std::string(prefix) + std::string(5 - digits.size(), '0') + digits;
}

// Returns the bytes of the tensor with the index i of put_model().
inline std::string model_bytes(std::size_t i) {
  return pattern(64 + i).substr(i);
}

// Writes `count` files and their index. File i has one tensor, "t<i>".
inline void put_model(const TemporaryDirectory& directory, std::size_t count) {
  std::vector<std::pair<std::string, std::string>> map;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string file = numbered("model-", i) + ".safetensors";
    put(directory / file, u8_file({{numbered("t", i), model_bytes(i)}}));
    map.emplace_back(numbered("t", i), file);
  }
  put(directory / "model.safetensors.index.json", index_text(map));
}

inline std::vector<std::string> names_of(const Checkpoint& model) {
  std::vector<std::string> names;
  for (const Tensor& tensor : model.tensors()) names.emplace_back(tensor.name());
  return names;
}

inline std::string read_text(const Result<Tensor>& tensor) {
  if (!succeeds(tensor)) return tensor.error().to_string();
  const Result<Array> array = tensor->read();
  return array ? data_of(*array) : array.error().to_string();
}

// The first byte of each tensor, or the name of the error.
inline std::string letters_of(const Result<Checkpoint>& model) {
  if (!model) return std::string(to_string(model.error().code));
  std::string letters;
  for (const Tensor& tensor : model->tensors()) letters += read_text(Result<Tensor>(tensor))[0];
  return letters;
}

}  // namespace safetensors::test
