// Orders tensors so that many of them begin at a multiple of an alignment, without gaps between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace safetensors::format {

// Returns the indexes of `sizes`, which are in bytes, in the new order. The first tensor begins at a multiple of the
// alignment, which must be a power of two up to 65536. Tensors of equal rank keep their order where possible. In a
// group, tensors keep the order of `sizes`, so that large elements stay before small ones. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::size_t> aligned_order(std::span<const std::uint64_t> sizes, std::uint32_t alignment);

}  // namespace safetensors::format
