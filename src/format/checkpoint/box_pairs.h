// Finds the pairs of boxes that have an index in common, in any number of dimensions.
//
// This is the streamed segment tree of Zomorodian and Edelsbrunner ("Fast software for box intersections", 2002). Two
// ranges overlap if the begin of one of them is inside of the other. So per dimension the search asks which ranges hold
// which begins, once for each side. A node of the tree is a set of begins. A range that holds all of them goes on to
// the next dimension together with them. The other ranges go to the half or to both halves of the node that they reach.
// At most two ends of a range are inside of nodes of one level, so few ranges go to both. A pair that overlaps in only
// some of the dimensions is never compared. The tree is never stored: the search permutes lists of indexes.
#pragma once

#include <safetensors/reshard.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace safetensors::format {

// No box is empty, and all boxes have the same rank.
class BoxPairs {
 public:
  using Boxes = std::span<const Box* const>;
  // Gets the indexes of two boxes. Returns false to end the search.
  using Visit = std::function<bool(std::size_t, std::size_t)>;

  // Pairs of one list: visit gets the lower index first.
  explicit BoxPairs(Boxes boxes);
  // Pairs of a box of each list: visit gets the index in `left` first.
  BoxPairs(Boxes left, Boxes right);

  // Calls visit once per pair of boxes that overlap, in any order. Returns false if visit did.
  bool each(const Visit& visit);

  // The number of entries of lists and of pairs that each() looked at. For C boxes, D dimensions that separate them,
  // and P pairs that overlap, it is at most in proportion to C x log2(C)^D + P.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  // The begins of all boxes in one dimension are numbered without repetition. `begin` is the number of this begin, and
  // `end` counts the begins that are below the end of the box.
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  using Indexes = std::span<std::size_t>;

  void add_dim(const std::vector<const Box*>& boxes, std::size_t dim);
  void sort_dims();
  bool search(Indexes ranges, Indexes points, std::size_t dim);
  bool search_half(Indexes ranges, Indexes points, std::size_t dim);
  bool compare(Indexes ranges, Indexes points, std::size_t dim);
  bool scan(Indexes ranges, Indexes points);
  [[nodiscard]] bool holds(std::size_t range, std::size_t point, std::size_t dim) const noexcept;
  bool report(std::size_t a, std::size_t b);

  std::size_t count_ = 0;  // boxes of both lists: the indexes of `right` follow those of `left`
  std::size_t left_;       // boxes of `left`
  bool one_list_ = false;
  std::vector<std::vector<Range>> dims_;  // one range per box. The search begins with the last dimension
  const Visit* visit_ = nullptr;
  std::uint64_t steps_ = 0;
};

}  // namespace safetensors::format
