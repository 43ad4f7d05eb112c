// A header's text, as the format's writer writes it.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/shape.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::format {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// Call in order: metadata pairs sorted by key, then tensors as the writer orders them, then finish. Throws
// std::bad_alloc.
class HeaderWriter {
 public:
  void metadata_begin() { text_ += "\"__metadata__\":{"; }
  void pair(std::string_view key, std::string_view value);
  void metadata_end();
  void tensor(std::string_view name, Dtype dtype, ShapeView shape, std::uint64_t begin, std::uint64_t end);
  // All of a header. By offset, which leaves open those of no bytes at one offset: as the writer has them.
  void tensors(const TensorList& list);
  [[nodiscard]] std::string finish() &&;

 private:
  void separate() {
    if (text_.back() != '{') text_ += ',';
  }
  std::string text_ = "{";
};

// Appends spaces to text: slack of them, then until 8 + its length is a multiple of alignment.
// Error: header_too_large.
[[nodiscard]] Status pad_text(std::string& text, std::uint64_t alignment, std::uint64_t slack);

}  // namespace safetensors::format
