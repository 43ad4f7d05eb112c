// The compression function is needed only to join subtrees, once per block. It follows section 2.2 of the BLAKE3 paper.
// Everything else, the root included, is done by the C library.
#include "hash/blake3_tree.h"

#if defined(SAFETENSORS_HAVE_BLAKE3)

#include <algorithm>
#include <bit>
#include <cstring>

namespace safetensors::hash {
namespace {

using Words = std::array<std::uint32_t, 16>;

constexpr std::uint32_t kParent = 4;  // the flag of a node that is not a chunk
constexpr std::array<std::uint32_t, 8> kStart = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                                 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
// The order of the message words in the next round.
constexpr std::array<std::size_t, 16> kPermutation = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

std::uint32_t load_u32(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8 | std::uint32_t{bytes[2]} << 16 |
         std::uint32_t{bytes[3]} << 24;
}

void mix(Words& v, std::size_t a, std::size_t b, std::size_t c, std::size_t d, std::uint32_t x, std::uint32_t y) {
  v[a] += v[b] + x;
  v[d] = std::rotr(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 12);
  v[a] += v[b] + y;
  v[d] = std::rotr(v[d] ^ v[a], 8);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 7);
}

void round(Words& v, const Words& m) {
  for (std::size_t i = 0; i < 4; ++i) mix(v, i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1]);
  for (std::size_t i = 0; i < 4; ++i)
    mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i], m[8 + 2 * i + 1]);
}

}  // namespace

Blake3Tree::Blake3Tree(std::uint64_t size, std::size_t block_bytes) : block_bytes_(block_bytes) {
  if (size > block_bytes) blocks_.resize(static_cast<std::size_t>((size - 1) / block_bytes));
}

void Blake3Tree::take(std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto block = static_cast<std::size_t>(offset / block_bytes_);
  if (block == blocks_.size()) {
    last_.assign(bytes.begin(), bytes.end());
    return;
  }
  blake3_hasher hasher;
  blake3_hasher_init(&hasher);
  hasher.chunk.chunk_counter = offset / BLAKE3_CHUNK_LEN;
  blake3_hasher_update(&hasher, bytes.data(), bytes.size());
  blocks_[block] = join(hasher.cv_stack, hasher.cv_stack + BLAKE3_OUT_LEN);
}

Digest Blake3Tree::finish() {
  blake3_hasher hasher;
  blake3_hasher_init(&hasher);
  // The stack is the one that the library has after these blocks: one subtree per bit of their number.
  std::vector<ChainingValue> stack;
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    stack.push_back(blocks_[block]);
    for (std::size_t count = block + 1; count % 2 == 0; count /= 2) {
      const ChainingValue right = stack.back();
      stack.pop_back();
      stack.back() = join(stack.back().data(), right.data());
    }
  }
  for (const ChainingValue& value : stack)
    std::memcpy(hasher.cv_stack + std::size_t{BLAKE3_OUT_LEN} * hasher.cv_stack_len++, value.data(), value.size());
  hasher.chunk.chunk_counter = std::uint64_t{blocks_.size()} * block_bytes_ / BLAKE3_CHUNK_LEN;
  blake3_hasher_update(&hasher, last_.data(), last_.size());
  Digest digest;
  blake3_hasher_finalize(&hasher, digest.bytes.data(), digest.bytes.size());
  return digest;
}

Blake3Tree::ChainingValue Blake3Tree::join(const std::uint8_t* left, const std::uint8_t* right) {
  Words message;
  for (std::size_t i = 0; i < 8; ++i) {
    message[i] = load_u32(left + 4 * i);
    message[8 + i] = load_u32(right + 4 * i);
  }
  Words v{};
  std::ranges::copy(kStart, v.begin());
  std::copy_n(kStart.begin(), 4, v.begin() + 8);
  v[14] = BLAKE3_BLOCK_LEN;  // the counter, v[12] and v[13], is 0
  v[15] = kParent;
  for (int i = 0; i < 7; ++i) {
    round(v, message);
    Words next;
    for (std::size_t j = 0; j < next.size(); ++j) next[j] = message[kPermutation[j]];
    message = next;
  }
  ChainingValue value;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint32_t word = v[i] ^ v[i + 8];
    for (std::size_t byte = 0; byte < 4; ++byte) value[4 * i + byte] = static_cast<std::uint8_t>(word >> (8 * byte));
  }
  return value;
}

}  // namespace safetensors::hash

#endif
