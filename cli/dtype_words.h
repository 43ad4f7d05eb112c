// The words for dtypes on the command line.
#pragma once

#include <safetensors/dtype.h>

#include <optional>
#include <string_view>

namespace safetensors::cli {

// A dtype by its name in any case ("bf16", "F8_E4M3"), or by a word of frameworks: "half", "bfloat16", "float8_e4m3fn",
// "int8". "fp8" is F8_E4M3.
[[nodiscard]] std::optional<Dtype> dtype_named(std::string_view text);

// What dtype_named() accepts besides the names of dtypes, for error messages.
inline constexpr char kDtypeWords[] = "half, float, double, bfloat16, fp16, fp8, int8 and such also work";

}  // namespace safetensors::cli
