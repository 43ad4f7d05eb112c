// The bytes of a tensor, counted the plain way.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/shape.h>

#include <cstdint>
#include <optional>

namespace fuzz {

__extension__ typedef unsigned __int128 Wide;

// Nothing when they cannot be counted: rules 7 and 8.
inline std::optional<std::uint64_t> count_bytes(safetensors::Dtype dtype, safetensors::ShapeView shape) {
  Wide count = 1;
  for (const std::uint64_t dim : shape) {
    count *= dim;
    if (count >> 64 != 0) return std::nullopt;
  }
  count *= bits(dtype);
  if (count >> 64 != 0 || count % 8 != 0) return std::nullopt;
  return static_cast<std::uint64_t>(count / 8);
}

}  // namespace fuzz
