// Plain loops over the dimensions. No sum and no product overflows, because the boxes are inside of one tensor.
#include "format/checkpoint/box_arithmetic.h"

#include <algorithm>

namespace safetensors::format {

std::uint64_t end_of(const Box& box, std::size_t dim) noexcept {
  return box.begin[dim] + box.shape[dim];
}

bool overlap(const Box& a, const Box& b) noexcept {
  for (std::size_t dim = 0; dim < a.shape.rank(); ++dim) {
    if (std::max(a.begin[dim], b.begin[dim]) >= std::min(end_of(a, dim), end_of(b, dim))) return false;
  }
  return true;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box both = a;
  for (std::size_t dim = 0; dim < a.shape.rank(); ++dim) {
    const std::uint64_t begin = std::max(a.begin[dim], b.begin[dim]);
    const std::uint64_t end = std::min(end_of(a, dim), end_of(b, dim));
    if (begin >= end) return std::nullopt;
    both.begin.data()[dim] = begin;
    both.shape.data()[dim] = end - begin;
  }
  return both;
}

std::uint64_t common_numel(const Box& a, const Box& b) noexcept {
  std::uint64_t product = 1;
  for (std::size_t dim = 0; dim < a.shape.rank(); ++dim) {
    const std::uint64_t begin = std::max(a.begin[dim], b.begin[dim]);
    const std::uint64_t end = std::min(end_of(a, dim), end_of(b, dim));
    if (begin >= end) return 0;
    product *= end - begin;
  }
  return product;
}

}  // namespace safetensors::format
