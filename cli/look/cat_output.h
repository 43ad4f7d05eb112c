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

struct CatRequest {
  const File& file;
  const TensorInfo& tensor;
  const ResolvedSlice& slice;
  Dtype dtype;          // of the output; another one than that of the tensor if the values are cast
  std::string format;   // raw, npy, text or json
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

}  // namespace safetensors::cli
