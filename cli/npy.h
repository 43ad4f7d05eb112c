// The header of NumPy's .npy files.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/shape.h>

#include <optional>
#include <string>
#include <string_view>

namespace safetensors::cli {

// NumPy's type string, such as "<f4"; nothing for a dtype that NumPy does not have.
[[nodiscard]] std::optional<std::string_view> npy_type(Dtype dtype) noexcept;

// Version 1.0, or 2.0 when the shape is too long for it; padded so that the data starts at a multiple of 64. The
// data follows in C order.
[[nodiscard]] std::string npy_header(std::string_view type, ShapeView shape);

}  // namespace safetensors::cli
