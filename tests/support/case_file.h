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
  bool checks_content = true;  // the case lists all tensors and all metadata of the file
  std::string message;
};

// All cases of tests/data/cases, tests/data/conformance and docs/format.md, in the order of their names. Throws
// std::runtime_error if a case has an unknown form.
std::vector<Case> load_all(const std::string& data_directory);

// Parses the length, then the text. If the file is too large to build, parses only the length and returns an empty
// Header.
safetensors::Result<safetensors::Header> parse(const Case& c);

}  // namespace cases
