// Small functions that every subcommand shares.
#include "open_file.h"
#include "formatted.h"

namespace safetensors::cli {

Result<File> open_file(const std::string& path, Console& console, const ParseOptions& parse) {
  OpenOptions options{.access = Access::read, .parse = parse};
  options.parse.allow_leading_whitespace = true;
  Result<File> file = File::open(path, options);
  if (file && file->header().leading_whitespace()) {
    console.message(formatted(
        "{}: notice: white space before the header's `{{` (byte 8), which the format forbids and verify refuses",
        printable(path)));
  }
  return file;
}

const TensorInfo* find_tensor(const Header& header, std::string_view name) {
  if (const TensorInfo* tensor = header.find(name); tensor != nullptr) return tensor;
  if (name.find('\\') == std::string_view::npos) return nullptr;
  for (const TensorInfo& tensor : header.tensors()) {
    if (printable(tensor.name) == name) return &tensor;
  }
  return nullptr;
}

std::string shape_text(ShapeView shape) {
  constexpr std::size_t kShown = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i < kShown; ++i) {
    text += formatted("{}{}", i == 0 ? "" : ",", shape[i]);
  }
  if (shape.size() > kShown) text += formatted(",...{} dimensions", shape.size());
  return text + "]";
}

std::uint64_t parameters(const TensorInfo& tensor) {
  const unsigned element_bits = bits(tensor.dtype);
  const std::uint64_t bytes = tensor.nbytes();
  // bytes * 8 / element_bits in two steps, because bytes * 8 could overflow.
  return bytes / element_bits * 8 + bytes % element_bits * 8 / element_bits;
}

}  // namespace safetensors::cli
