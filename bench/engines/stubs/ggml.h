// The part of ggml that the reader of stable-diffusion.cpp names. Only the sizes of the plain types are right.
#pragma once

#include <cstddef>
#include <cstdint>

enum ggml_type { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I8, GGML_TYPE_I32, GGML_TYPE_COUNT };

struct ggml_tensor {
  ggml_type type = GGML_TYPE_F32;
  void* data = nullptr;
};

inline std::size_t ggml_type_size(ggml_type type) {
  switch (type) {
    case GGML_TYPE_I8:
      return 1;
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
      return 2;
    default:
      return 4;
  }
}
inline std::int64_t ggml_blck_size(ggml_type) {
  return 1;
}
inline const char* ggml_type_name(ggml_type) {
  return "";
}
inline const char* ggml_get_name(const ggml_tensor*) {
  return "";
}
inline std::size_t ggml_nbytes(const ggml_tensor*) {
  return 0;
}
