// The header of NumPy's .npy files.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/shape.h>

#include <optional>
#include <string>
#include <string_view>

namespace safetensors::cli {

// The type string of NumPy, such as "<f4". nullopt for a dtype that NumPy lacks.
[[nodiscard]] std::optional<std::string_view> npy_type(Dtype dtype) noexcept;

// Returns a header of version 1.0, or of version 2.0 if the shape is too long. It is padded so that the data, in C
// order, starts at a multiple of 64 bytes.
[[nodiscard]] std::string npy_header(std::string_view type, ShapeView shape);

}  // namespace safetensors::cli
