// Consumers of a Scan that compute digests of ranges.
#pragma once

#include <safetensors/error.h>
#include <safetensors/hash.h>
#include <safetensors/header.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "hash/hasher.h"
#include "os/regular_file.h"

namespace safetensors::hash {

// The digest of one range of a file, from blocks in order.
class RangeDigest {
 public:
  RangeDigest(std::unique_ptr<Hasher> hasher, std::uint64_t begin, std::uint64_t end)
      : hasher_(std::move(hasher)), begin_(begin), end_(end) {}

  void take(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
    const std::uint64_t low = std::max(begin_, offset);
    const std::uint64_t high = std::min<std::uint64_t>(end_, offset + bytes.size());
    if (low >= high) return;
    hasher_->update(bytes.subspan(static_cast<std::size_t>(low - offset), static_cast<std::size_t>(high - low)));
  }
  [[nodiscard]] Result<Digest> finish() noexcept { return hasher_->finish(); }

 private:
  std::unique_ptr<Hasher> hasher_;
  std::uint64_t begin_;
  std::uint64_t end_;
};

// The digests of tensors, from blocks in order. The tensors are sorted by their offsets and do not overlap.
class TensorDigests {
 public:
  TensorDigests(std::unique_ptr<Hasher> hasher, TensorList tensors, std::vector<Digest>& digests)
      : hasher_(std::move(hasher)), tensors_(tensors), digests_(digests) {
    digests_.resize(tensors.size());
  }

  [[nodiscard]] Status take(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
    const std::uint64_t block_end = offset + bytes.size();
    while (next_ < tensors_.size()) {
      const TensorInfo& tensor = tensors_[next_];
      const std::uint64_t end = tensor.file_offset + tensor.nbytes();
      const std::uint64_t low = std::max(tensor.file_offset, offset);
      const std::uint64_t high = std::min(end, block_end);
      if (low < high)
        hasher_->update(bytes.subspan(static_cast<std::size_t>(low - offset), static_cast<std::size_t>(high - low)));
      if (end > block_end) return {};
      if (Status status = finish_tensor(); !status) return status;
    }
    return {};
  }
  // Call it after the last block: it completes the empty tensors at the end.
  [[nodiscard]] Status finish() noexcept {
    while (next_ < tensors_.size()) {
      if (Status status = finish_tensor(); !status) return status;
    }
    return {};
  }

 private:
  [[nodiscard]] Status finish_tensor() noexcept {
    const Result<Digest> digest = hasher_->finish();
    if (!digest) return digest.error();
    digests_[next_++] = *digest;
    return {};
  }

  std::unique_ptr<Hasher> hasher_;
  TensorList tensors_;
  std::vector<Digest>& digests_;
  std::size_t next_ = 0;
};

// Returns the digest of a range of a source. buffer: memory for up to its size at a time, not empty. Errors: those of
// os::read_exactly() and Hasher.
[[nodiscard]] inline Result<Digest> hash_range(const Source& source, std::uint64_t begin, std::uint64_t end,
                                               Hasher& hasher, std::span<std::byte> buffer) noexcept {
  for (std::uint64_t offset = begin; offset < end;) {
    const std::span<std::byte> bytes =
        buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - offset)));
    if (Status status = os::read_exactly(source, offset, bytes); !status) {
      (void)hasher.finish();
      return std::move(status).error();
    }
    hasher.update(bytes);
    offset += bytes.size();
  }
  return hasher.finish();
}

}  // namespace safetensors::hash
