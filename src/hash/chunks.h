// Sizes and counts of the chunks that have digests.
#pragma once

#include <bit>
#include <cstdint>

namespace safetensors::hash {

inline constexpr std::uint64_t kMinChunkBytes = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{16} << 20;

[[nodiscard]] constexpr bool is_chunk_size(std::uint64_t bytes) noexcept {
  return std::has_single_bit(bytes) && bytes >= kMinChunkBytes && bytes <= kMaxChunkBytes;
}

// Returns the number of chunks of a file. chunk_bytes must not be 0.
[[nodiscard]] constexpr std::uint64_t chunk_count(std::uint64_t bytes, std::uint64_t chunk_bytes) noexcept {
  return bytes / chunk_bytes + (bytes % chunk_bytes != 0 ? 1 : 0);
}

}  // namespace safetensors::hash
