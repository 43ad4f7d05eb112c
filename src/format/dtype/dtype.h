// What the table of dtypes tells besides <safetensors/dtype.h>.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>
#include <cstdint>

namespace safetensors::format {

// The longest name of a dtype, in bytes.
inline constexpr std::size_t kMaxDtypeName = 11;

// Returns the index of a dtype in all_dtypes(). Returns their number for Dtype::UNKNOWN.
[[nodiscard]] unsigned rank(Dtype dtype) noexcept;

// Returns the DLDataTypeCode of DLPack 1.1 for a dtype. Returns that of U8 for Dtype::UNKNOWN.
[[nodiscard]] std::uint8_t dlpack_code(Dtype dtype) noexcept;

}  // namespace safetensors::format
