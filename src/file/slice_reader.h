// Reads a slice: large runs each by itself, small ones together through a buffer.
#pragma once

#include <safetensors/error.h>
#include <safetensors/slice.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/slice.h"
#include "io/source_reader.h"

namespace safetensors::file {

inline constexpr std::uint64_t kExactPiece = 64 << 10;  // from here on a piece is read by itself
inline constexpr std::uint64_t kTinyPiece = 512;        // below, what lies between is read whatever it is
inline constexpr std::uint64_t kWidestGap = 64 << 10;   // unless it is this wide
inline constexpr std::uint64_t kBounceBytes = io::BounceBuffer::kBytes;

// Reads bytes of the tensor, offset counted from its first.
class ReadTensorBytes {
 public:
  ReadTensorBytes() = default;
  ReadTensorBytes(const ReadTensorBytes&) = delete;
  ReadTensorBytes& operator=(const ReadTensorBytes&) = delete;
  [[nodiscard]] virtual Status operator()(std::uint64_t offset, std::span<std::byte> destination) noexcept = 0;

 protected:
  ~ReadTensorBytes() = default;
};

// Of the pieces that a slice consists of (format::piece_count), `count` from `first` on.
struct PieceRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Both write the pieces to destination, one behind the other. bounce: the calling thread's, for what is read together.
// May throw std::bad_alloc.
[[nodiscard]] Status read_slice(const ResolvedSlice& slice, PieceRange pieces, ReadTensorBytes& read,
                                io::BounceBuffer& bounce, std::byte* destination);
// The tensor is in memory.
void gather_slice(const ResolvedSlice& slice, PieceRange pieces, const std::byte* tensor, std::byte* destination);

}  // namespace safetensors::file
