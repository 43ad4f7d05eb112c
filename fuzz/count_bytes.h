// Counts the bytes of a tensor with the simplest code.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/shape.h>

#include <cstdint>
#include <optional>

namespace fuzz {

// Returns nullopt if the tensor breaks rule 7 or 8, because the bytes cannot be counted then.
inline std::optional<std::uint64_t> count_bytes(safetensors::Dtype dtype, safetensors::ShapeView shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : shape) {
    if (__builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  if (__builtin_mul_overflow(count, std::uint64_t{bits(dtype)}, &count) || count % 8 != 0) return std::nullopt;
  return count / 8;
}

}  // namespace fuzz
