// The codes that DLPack has for dtypes.
#pragma once

#include <safetensors/dtype.h>

#include <cstdint>

namespace safetensors::format {

// Returns the DLDataTypeCode of DLPack 1.1 for a dtype. Returns that of U8 for Dtype::UNKNOWN.
[[nodiscard]] std::uint8_t dlpack_code(Dtype dtype) noexcept;

}  // namespace safetensors::format
