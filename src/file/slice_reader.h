// Reads the pieces of a slice. Reads a large piece straight into the result, and small pieces together through a bounce
// buffer.
#pragma once

#include <safetensors/error.h>
#include <safetensors/slice.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "format/slice/slice.h"
#include "io/source_reader.h"

namespace safetensors::file {

inline constexpr std::uint64_t kExactPiece = 64 << 10;  // bytes; a piece of this size or more is never read with a gap
inline constexpr std::uint64_t kTinyPiece = 512;        // bytes; smaller pieces are read with gaps of up to kMaxGap
inline constexpr std::uint64_t kMaxGap = 64
                                         << 10;  // bytes; the widest gap that is read, by tiny pieces and on a network
inline constexpr std::uint64_t kMaxSpan = 1 << 20;  // bytes; read together, so that they stay in the cache of a core

// Reads bytes of a tensor. offset: bytes from the start of the tensor. Pass std::ref() of a function, so that nothing
// is allocated.
using ReadTensorBytes = std::function<Status(std::uint64_t offset, std::span<std::byte> destination)>;

// Pieces [first, first + count) of a slice, see format::piece_count.
struct PieceRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// The range of the tensor's bytes that holds the pieces. Empty for no pieces.
struct PieceExtent {
  std::uint64_t offset = 0;  // from the start of the tensor
  std::uint64_t size = 0;
};
[[nodiscard]] PieceExtent extent_of(const ResolvedSlice& slice, PieceRange pieces);

// Writes the pieces to destination, one after the other. bounce: the bounce buffer of the calling thread. max_gap:
// in bytes. Pieces under kExactPiece are read together if the gap between them is not wider. Use it if the storage
// delivers the gap faster than it answers another read. May throw std::bad_alloc.
[[nodiscard]] Status read_slice(const ResolvedSlice& slice, PieceRange pieces, const ReadTensorBytes& read,
                                io::BounceBuffer& bounce, std::byte* destination, std::uint64_t max_gap = 0);
// Does the same for bytes in memory. bytes: the address of the byte at offset `low` of the tensor. They must hold the
// extent of the pieces.
void gather_slice(const ResolvedSlice& slice, PieceRange pieces, const std::byte* bytes, std::byte* destination,
                  std::uint64_t low = 0);

}  // namespace safetensors::file
