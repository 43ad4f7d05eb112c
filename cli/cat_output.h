// A tensor's bytes in the form that cat was asked for.
#pragma once

#include "console.h"

#include <safetensors/file.h>

#include <functional>
#include <optional>
#include <string_view>

namespace safetensors::cli {

enum class CatFormat : std::uint8_t { raw, npy, text, json };

[[nodiscard]] std::string_view to_string(CatFormat format);

struct CatRequest {
  const File& file;
  const TensorInfo& tensor;
  const ResolvedSlice& slice;
  CatFormat format;
  std::uint64_t limit;  // items of a dimension in text; 0: all
  bool progress;        // whether to show how far it is, where there is a terminal for that
};

// Takes bytes; its error ends the writing.
using Sink = std::function<Status(std::string_view)>;

// How many bytes write_tensor gives: known beforehand for raw and npy.
[[nodiscard]] std::optional<std::uint64_t> output_bytes(const CatRequest& request);

// npy only for a dtype that NumPy has. Stops early when the console's standard output takes no more.
[[nodiscard]] Status write_tensor(const CatRequest& request, const Sink& sink, Console& console);

}  // namespace safetensors::cli
