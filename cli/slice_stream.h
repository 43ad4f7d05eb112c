// The bytes of a slice of a tensor, one after the other, in bounded memory.
#pragma once

#include <safetensors/file.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace safetensors::cli {

// Reads long runs straight into the destination; short ones that lie close together through a window of 1 MiB. file
// and slice must outlive it.
class SliceStream {
 public:
  SliceStream(const File& file, const TensorInfo& tensor, const ResolvedSlice& slice);

  // How many bytes are still to come.
  [[nodiscard]] std::uint64_t left() const { return left_; }
  // Fills destination, which must not be longer than left(). Errors: read_failed, file_truncated.
  [[nodiscard]] Status read(std::span<std::byte> destination);
  void skip(std::uint64_t bytes);  // not more than left()

 private:
  // The next part of a run, at most `most` bytes.
  ByteRun take(std::uint64_t most);
  // Bytes at an offset of the tensor.
  Status fetch(std::uint64_t offset, std::span<std::byte> destination);
  Status read_exactly(std::uint64_t offset, std::span<std::byte> destination) const;

  const Source& source_;
  std::uint64_t tensor_offset_;
  std::uint64_t tensor_size_;
  ResolvedSlice::Runs runs_;
  ByteRun run_;  // what is left of it
  std::uint64_t left_;
  std::uint64_t last_offset_ = 0;
  std::uint64_t window_offset_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace safetensors::cli
