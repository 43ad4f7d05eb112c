// Stand-ins for the types of stable-diffusion.cpp that its reader of headers uses. They have the names of the engine,
// and only the behaviour that the reader needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

enum ggml_type { GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_I32 = 26, GGML_TYPE_BF16 = 30, GGML_TYPE_COUNT = 39 };

constexpr int SD_MAX_DIMS = 5;

// Where the bytes of a tensor are. The engine reads them later, with its own threads.
struct TensorStorage {
  std::string name;
  ggml_type type = GGML_TYPE_F32;  // of the tensor in memory
  bool is_f8_e4m3 = false;         // the dtype in the file, if it is another one
  bool is_f8_e5m2 = false;
  bool is_f64 = false;
  bool is_i64 = false;
  std::int64_t ne[SD_MAX_DIMS] = {1, 1, 1, 1, 1};  // dimensions, innermost first
  int n_dims = 1;
  std::size_t file_index = 0;
  std::uint64_t offset = 0;  // bytes from the start of the file
};

bool is_safetensors_file(const std::string& file_path);
bool read_safetensors_file(const std::string& file_path, std::vector<TensorStorage>& tensor_storages,
                           std::string* error = nullptr);
