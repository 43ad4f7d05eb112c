// Writes a tensor in one of the formats of cat.
#pragma once

#include "console.h"

#include <safetensors/dtype.h>
#include <safetensors/file.h>
#include <safetensors/shape.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace safetensors::cli {

enum class CatFormat : std::uint8_t { raw, npy, text, json };

[[nodiscard]] std::string_view to_string(CatFormat format);

struct CatRequest {
  const File& file;
  const TensorInfo& tensor;
  const ResolvedSlice& slice;
  Dtype dtype;  // of the output; another one than that of the tensor if the values are cast
  CatFormat format;
  std::uint64_t limit;  // max elements shown per dimension in text; 0: all
  bool progress;        // whether to show the progress if standard error is a terminal
};

// Receives the output. An error that it returns ends the output.
using Sink = std::function<Status(std::string_view)>;

// The number of bytes that write_tensor() produces, known in advance for raw and npy. nullopt for the other formats.
[[nodiscard]] std::optional<std::uint64_t> output_bytes(const CatRequest& request);

// Writes the tensor to sink. The format npy needs a dtype that NumPy has, and
// another dtype a cast that castable() allows. Stops early if the console's standard output
// fails.
[[nodiscard]] Status write_tensor(const CatRequest& request, const Sink& sink, Console& console);

// The type string of NumPy, such as "<f4". nullopt for a dtype that NumPy lacks.
[[nodiscard]] std::optional<std::string_view> npy_type(Dtype dtype) noexcept;

// Returns a header of version 1.0, or of version 2.0 if the shape is too long. It is padded so that the data, in C
// order, starts at a multiple of 64 bytes.
[[nodiscard]] std::string npy_header(std::string_view type, ShapeView shape);

}  // namespace safetensors::cli
