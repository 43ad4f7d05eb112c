// Reads the bytes of a slice in order, in bounded memory.
#pragma once

#include <safetensors/file.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace safetensors::cli {

// Long pieces are read straight into the destination. Short pieces that are close together go through a window of 1
// MiB. file and slice must outlive this object.
class SliceStream {
 public:
  SliceStream(const File& file, const TensorInfo& tensor, const ResolvedSlice& slice);

  // The number of bytes that are not read yet.
  [[nodiscard]] std::uint64_t remaining() const { return remaining_; }
  // Fills destination, which must not be longer than remaining(). Errors: read_failed, file_truncated.
  [[nodiscard]] Status read(std::span<std::byte> destination);
  void skip(std::uint64_t bytes);  // at most remaining()

 private:
  // Returns the next part of a piece, at most `max` bytes.
  ByteRun take(std::uint64_t max);
  // Reads bytes at an offset in the tensor.
  Status fetch(std::uint64_t offset, std::span<std::byte> destination);
  Status read_exactly(std::uint64_t offset, std::span<std::byte> destination) const;

  const Source& source_;
  std::uint64_t tensor_offset_;
  std::uint64_t tensor_size_;
  ResolvedSlice::Runs runs_;
  ByteRun run_;  // the rest of the current piece
  std::uint64_t remaining_;
  std::uint64_t last_offset_ = 0;
  std::uint64_t window_offset_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace safetensors::cli
