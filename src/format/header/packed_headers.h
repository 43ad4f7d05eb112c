// The headers of the files of a checkpoint as one sequence of bytes. Another process can open the checkpoint with these
// bytes.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::format {

struct PackedFile {
  std::string_view name;        // relative to the folder of the checkpoint; may be empty
  std::string_view text;        // of the header, with its padding
  std::uint64_t file_size = 0;  // bytes
  // One bit per tensor in the order of Header::tensors(), the lowest bit of a byte first. Empty: all are visible.
  std::string_view visible;
};

struct PackedHeaders {
  bool has_index = false;
  std::string_view index_metadata;  // the member `metadata` of the index, or empty
  std::vector<PackedFile> files;
};

// Returns the bytes. The same headers always give the same bytes. Throws std::bad_alloc.
[[nodiscard]] std::string pack_headers(const PackedHeaders& headers);

// Reads what pack_headers() returns. The views point into the bytes. Checks only that the parts fit into the bytes: the
// caller checks names, texts and all numbers. Memory: less than 2 * bytes.size(). Errors: invalid_argument, with an
// offset in the bytes; unsupported for another version. Throws std::bad_alloc.
[[nodiscard]] Result<PackedHeaders> unpack_headers(std::string_view bytes);

// Returns the size of PackedFile::visible for a number of tensors, in bytes.
[[nodiscard]] constexpr std::size_t visible_bytes(std::size_t tensors) noexcept {
  return tensors / 8 + (tensors % 8 == 0 ? 0 : 1);
}

}  // namespace safetensors::format
