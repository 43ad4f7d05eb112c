// Reads the cases of tests/data. tests/data/cases/README.md describes their format.
#pragma once

#include <safetensors/header.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cases {

struct Tensor {
  std::string name, dtype, shape;  // shape as in "[2,3]"
  std::uint64_t begin = 0, end = 0;
};

struct Case {
  std::string name, where;  // where: file and line
  std::string bytes;        // of the file, without its data
  bool has_header = false;  // bytes are a length and a header
  std::uint64_t data_size = 0;
  std::optional<std::uint64_t> file_size;
  safetensors::ParseOptions options;
  std::string code;  // "ok" or the error
  std::uint64_t offset = 0;
  std::vector<Tensor> tensors;
  std::optional<std::vector<std::pair<std::string, std::string>>> metadata;
  bool checks_content = true;  // tensors and metadata are all that the file holds
  std::string message;
};

// All cases of tests/data/cases, tests/data/conformance and docs/format.md, in the order of their names. Throws
// std::runtime_error for what it cannot understand.
std::vector<Case> load_all(const std::string& data_directory);

// Reads a case as a reader of files does: the length, then the text. Of a file too large to be made, only the length;
// the Header is then empty.
safetensors::Result<safetensors::Header> parse(const Case& c);

}  // namespace cases
