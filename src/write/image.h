// A file of tensors in memory, as the pieces that are written or copied one after the other.
#pragma once

#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/writer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/write_images.h"

namespace safetensors::write {

// The pieces point into head and into the tensors.
struct Image {
  std::shared_ptr<const std::string> head;
  std::vector<io::Piece> pieces;  // in order, without gaps; the first is the head
  std::uint64_t size = 0;
};

// Error: data_length, if a tensor has not the number of bytes that the header says. The header must have all tensors.
[[nodiscard]] Status check_lengths(const Header& header, std::span<const TensorData> tensors);

// head: of this header. tensors: all tensors of the header, checked by check_lengths(). Error: size_overflow.
[[nodiscard]] Result<Image> make_image(const Header& header, std::string head, std::span<const TensorData> tensors);

}  // namespace safetensors::write
