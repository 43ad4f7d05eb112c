// Cuts a list of boxes so that no two of them overlap: each box keeps the elements that no earlier box has. So of
// several equal boxes, only the first one remains.
//
// Boxes of one mesh are disjoint or equal, so a search for overlaps finds none, and nothing is cut. Boxes that differ
// in one dimension only are ranges. They need no search: a map has the ranges that are taken. For other boxes, the
// number of overlaps and the number of pieces can grow with the square of the number of boxes, and boxes come from
// strangers. So both have limits.
#pragma once

#include <safetensors/reshard.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace safetensors::format {

// Returns the maximum number of pairs of boxes that overlap, and of pieces of boxes that are cut.
[[nodiscard]] constexpr std::uint64_t max_overlaps(std::size_t boxes) noexcept {
  return (std::uint64_t{1} << 18) + 16 * std::uint64_t{boxes};
}

class DisjointBoxes {
 public:
  struct Piece {
    const Box* box;
    std::size_t source;  // index of the box that it is a piece of
  };

  // The boxes have `rank` dimensions, are inside of a tensor, and must outlive the result. Error: invalid_argument (too
  // many overlaps).
  static Result<DisjointBoxes> of(std::span<const Box> boxes, std::size_t rank);

  // The pieces, none of them empty, in the order of their sources.
  [[nodiscard]] std::span<const Piece> pieces() const noexcept { return pieces_; }
  // The number of steps of BoxPairs and of comparisons for cutting.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_ + cutting_; }

 private:
  using Overlaps = std::vector<std::pair<std::size_t, std::size_t>>;

  explicit DisjointBoxes(std::span<const Box> boxes) : boxes_(boxes) {}
  void choose();
  [[nodiscard]] std::vector<std::size_t> dims_that_differ(std::size_t rank) const;
  void cut_ranges(std::size_t dim);
  Result<Overlaps> overlaps();
  Status cut_all(const Overlaps& overlaps);
  Status cut(std::size_t source, std::span<const Box*> takers);
  void add_cut(std::size_t source, Box box);

  std::span<const Box> boxes_;
  std::vector<std::size_t> chosen_;  // the indexes of boxes that are not empty, without repetition
  std::vector<Piece> pieces_;
  std::deque<Box> cut_;  // the pieces that are not whole boxes. Their addresses stay the same
  std::uint64_t steps_ = 0;
  std::uint64_t cutting_ = 0;  // steps of cut()
};

}  // namespace safetensors::format
