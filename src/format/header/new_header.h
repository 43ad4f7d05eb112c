// Makes the header of a new file from tensors that the caller describes by views. HeaderBuilder, CheckpointLayout and
// save() use it.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/shape.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors::format {

// A tensor of a new header. The name and the shape are memory of the caller.
struct NewTensor {
  std::string_view name;
  ShapeView shape;
  std::uint64_t nbytes;
  Dtype dtype;
};

// Errors: invalid_argument (unknown dtype), invalid_utf8, reserved_name, size_overflow, misaligned_size.
[[nodiscard]] Result<NewTensor> new_tensor(std::string_view name, Dtype dtype, ShapeView shape);
// Lists the tensors of a header. at: calls new_tensor() for index < count. Errors: those of `at` for the first
// wrong tensor, duplicate_name. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<NewTensor>> new_tensors(std::size_t count,
                                                         const std::function<Result<NewTensor>(std::size_t index)>& at);

// The text of a new header, and the size of the data in bytes.
struct NewHeaderText {
  std::string text;
  std::uint64_t data_bytes = 0;
};

// Returns the member `__metadata__` of a header as text. The pairs have any order. Errors: invalid_utf8,
// duplicate_name. Throws std::bad_alloc.
[[nodiscard]] Result<std::string> metadata_member(std::span<const std::pair<std::string, std::string>> pairs);

// Puts the tensors in order and assigns their offsets. Frees the list of tensors before it returns. metadata: the text
// of metadata_member(), empty for none. Errors: those of HeaderBuilder::build(). Throws std::bad_alloc.
[[nodiscard]] Result<NewHeaderText> new_header_text(std::vector<NewTensor> tensors, std::string_view metadata,
                                                    const LayoutOptions& options);

// The parts of its text that a new header keeps. The parser needs the whole text. Later only the names and the metadata
// are needed, which are about half of the text.
enum class KeptText : std::uint8_t { all, names };

// Parses the text like that of a file, because the library must never write a header that it would refuse. The Header
// takes over the text. KeptText::names copies the names, so the peak of the memory is higher. Throws std::bad_alloc.
[[nodiscard]] Result<Header> new_header(NewHeaderText text, KeptText kept = KeptText::all);

}  // namespace safetensors::format
