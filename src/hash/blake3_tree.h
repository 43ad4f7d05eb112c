// BLAKE3 of one range by several threads.
//
// BLAKE3 hashes chunks of 1 KiB, and joins the chaining values of two neighbouring subtrees of the same size by one
// more compression. So the subtrees of blocks can be computed in any order. The C library hashes the blocks. It has no
// function for a subtree, but its hasher is a public struct: a hasher that begins at another chunk holds, after a whole
// block, the chaining values of the two halves.
#pragma once

#if defined(SAFETENSORS_HAVE_BLAKE3)

#include <blake3.h>
#include <safetensors/hash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace safetensors::hash {

class Blake3Tree {
 public:
  // block_bytes: a power of two from 2048 on.
  Blake3Tree(std::uint64_t size, std::size_t block_bytes);

  // Takes the block at an offset, a multiple of block_bytes. All blocks have block_bytes bytes, except the last one,
  // which may be shorter. Threads may call this at the same time for different blocks.
  void take(std::uint64_t offset, std::span<const std::byte> bytes);
  // Returns the digest. Call it once, after all blocks. An empty range has no blocks.
  [[nodiscard]] Digest finish();

 private:
  using ChainingValue = std::array<std::uint8_t, BLAKE3_OUT_LEN>;
  [[nodiscard]] static ChainingValue join(const std::uint8_t* left, const std::uint8_t* right);

  const std::size_t block_bytes_;
  std::vector<ChainingValue> blocks_;  // of all blocks but the last
  std::vector<std::byte> last_;        // the bytes of the last block
};

}  // namespace safetensors::hash

#endif
