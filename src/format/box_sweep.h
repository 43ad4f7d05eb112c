// Finds the pairs of boxes that have an index in common.
//
// A sweep along one dimension visits the boxes by their begins, and knows which ones are open. The open boxes are
// leaves of a binary tree, sorted by their begins in a second dimension. Each node has the largest end of its open
// leaves. So a search skips the open boxes that lie apart in the second dimension: only boxes that share indices of
// both dimensions are compared. The tree needs no balancing, because all leaves are known from the start.
#pragma once

#include <safetensors/reshard.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace safetensors::format {

// The first index after those of the box. The box is inside of a tensor.
[[nodiscard]] std::uint64_t end_of(const Box& box, std::size_t dim) noexcept;

// Returns true if the boxes, which have the same rank, have an index in common.
[[nodiscard]] bool overlap(const Box& a, const Box& b) noexcept;

// The dimensions from the one with most different begins to the one with fewest. `chosen`: indexes of boxes.
[[nodiscard]] std::vector<std::size_t> dims_by_cuts(std::span<const Box> boxes, std::span<const std::size_t> chosen,
                                                    std::size_t rank);

// Finds overlaps of chosen boxes that are not empty.
class BoxSweep {
 public:
  // `dims`: what dims_by_cuts() returned. All arguments must outlive this.
  BoxSweep(std::span<const Box> boxes, std::span<const std::size_t> chosen, std::span<const std::size_t> dims);

  // Returns the pairs of indexes of boxes that overlap, with the lower index first, in ascending order.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> pairs();
  // The number of nodes and boxes that pairs() looked at. With C chosen boxes of which P pairs share indices of the
  // first two dimensions, it is at most (C + P) x (7 + 4 x log2(C)).
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  void set_end(std::size_t leaf, std::uint64_t end);
  void search(std::size_t node, std::size_t first, std::size_t count, std::size_t box);

  std::span<const Box> boxes_;
  std::vector<std::size_t> leaves_;     // indexes of boxes by their begin in the second dimension
  std::vector<std::size_t> begins_;     // leaves by the begin of their box in the first dimension
  std::vector<std::size_t> ends_;       // ... and by its end
  std::size_t width_ = 1;               // leaves of the whole tree: a power of two
  std::vector<std::uint64_t> max_end_;  // per node, from the root at 1 on; 0 if no leaf below it is open
  std::size_t first_dim_;
  std::size_t second_dim_;
  std::vector<std::pair<std::size_t, std::size_t>> found_;
  std::uint64_t steps_ = 0;
};

}  // namespace safetensors::format
