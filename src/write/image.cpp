// Finds the place of each tensor in a file, and sorts the tensors by it.
#include "write/image.h"

#include <algorithm>
#include <utility>

#include "write/file_head.h"

namespace safetensors::write {

Status check_lengths(const Header& header, std::span<const TensorData> tensors) {
  for (const TensorData& tensor : tensors) {
    if (Status status = check_length(*header.find(tensor.name), tensor.bytes.size()); !status) return status;
  }
  return {};
}

Result<Image> make_image(const Header& header, std::string head, std::span<const TensorData> tensors) {
  const Result<std::uint64_t> size = file_size(head.size(), header.data_bytes());
  if (!size) return size.error();
  Image image{.head = std::make_shared<const std::string>(std::move(head)), .pieces = {}, .size = *size};
  image.pieces.reserve(tensors.size() + 1);
  image.pieces.push_back({0, bytes_of(*image.head)});
  for (const TensorData& tensor : tensors) {
    if (!tensor.bytes.empty())
      image.pieces.push_back({image.head->size() + header.find(tensor.name)->begin, tensor.bytes});
  }
  std::ranges::sort(image.pieces, {}, &io::Piece::offset);
  return image;
}

}  // namespace safetensors::write
