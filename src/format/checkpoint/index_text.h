// Writes the text of an index, byte for byte as Python's json.dumps(index, indent=2) writes it.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace safetensors::format {

// Call metadata() first, then tensor() for each tensor, then finish(). Functions throw std::bad_alloc.
class IndexText {
 public:
  // others: the text of a JSON object, or empty. Its members follow total_size; a member total_size is left out.
  // Error: invalid_argument, if the text is not an object.
  [[nodiscard]] Status metadata(std::uint64_t total_size, std::string_view others);
  // The names must be valid UTF-8.
  void tensor(std::string_view name, std::string_view file);
  [[nodiscard]] std::string finish() &&;

 private:
  std::string text_;
  bool has_tensor_ = false;
};

// Returns the text of an index with other names of files. text: made by IndexText. from, to: the old and the new names
// of all files. Throws std::bad_alloc.
[[nodiscard]] std::string rename_files(std::string_view text, std::span<const std::string> from,
                                       std::span<const std::string> to);

}  // namespace safetensors::format
