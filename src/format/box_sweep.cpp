// See box_sweep.h for the algorithm. A node has the children 2n and 2n + 1, and the leaves are the last `width_` nodes.
#include "format/box_sweep.h"

#include <algorithm>
#include <bit>
#include <numeric>

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

std::vector<std::size_t> dims_by_cuts(std::span<const Box> boxes, std::span<const std::size_t> chosen,
                                      std::size_t rank) {
  std::vector<std::size_t> cuts(rank), dims(rank);
  std::vector<std::uint64_t> begins(chosen.size());
  for (std::size_t dim = 0; dim < rank; ++dim) {
    std::transform(chosen.begin(), chosen.end(), begins.begin(), [&](std::size_t i) { return boxes[i].begin[dim]; });
    std::sort(begins.begin(), begins.end());
    cuts[dim] = static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
  }
  std::iota(dims.begin(), dims.end(), 0);
  std::stable_sort(dims.begin(), dims.end(), [&](std::size_t a, std::size_t b) { return cuts[a] > cuts[b]; });
  return dims;
}

BoxSweep::BoxSweep(std::span<const Box> boxes, std::span<const std::size_t> chosen, std::span<const std::size_t> dims)
    : boxes_(boxes),
      leaves_(chosen.begin(), chosen.end()),
      begins_(chosen.size()),
      width_(std::bit_ceil(std::max<std::size_t>(chosen.size(), 1))),
      max_end_(2 * width_),
      first_dim_(dims.empty() ? 0 : dims[0]),
      second_dim_(dims.size() < 2 ? first_dim_ : dims[1]) {
  if (dims.empty()) return;
  std::sort(leaves_.begin(), leaves_.end(),
            [&](std::size_t a, std::size_t b) { return boxes_[a].begin[second_dim_] < boxes_[b].begin[second_dim_]; });
  std::iota(begins_.begin(), begins_.end(), 0);
  ends_ = begins_;
  const auto box = [&](std::size_t leaf) -> const Box& { return boxes_[leaves_[leaf]]; };
  std::sort(begins_.begin(), begins_.end(),
            [&](std::size_t a, std::size_t b) { return box(a).begin[first_dim_] < box(b).begin[first_dim_]; });
  std::sort(ends_.begin(), ends_.end(),
            [&](std::size_t a, std::size_t b) { return end_of(box(a), first_dim_) < end_of(box(b), first_dim_); });
}

std::vector<std::pair<std::size_t, std::size_t>> BoxSweep::pairs() {
  if (ends_.empty()) {  // scalars: equal boxes
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) found_.emplace_back(std::minmax(leaves_[i], leaves_[j]));
    }
  }
  std::size_t closed = 0;
  for (std::size_t next = 0; next < ends_.size(); ++next) {
    const std::size_t index = leaves_[begins_[next]];
    while (end_of(boxes_[leaves_[ends_[closed]]], first_dim_) <= boxes_[index].begin[first_dim_])
      set_end(ends_[closed++], 0);
    const auto candidates = std::partition_point(leaves_.begin(), leaves_.end(), [&](std::size_t other) {
      return boxes_[other].begin[second_dim_] < end_of(boxes_[index], second_dim_);
    });
    search(1, 0, static_cast<std::size_t>(candidates - leaves_.begin()), index);
    set_end(begins_[next], end_of(boxes_[index], second_dim_));
  }
  std::sort(found_.begin(), found_.end());
  return std::move(found_);
}

// Opens a leaf, or closes it: `end` is 0.
void BoxSweep::set_end(std::size_t leaf, std::uint64_t end) {
  std::size_t node = width_ + leaf;
  max_end_[node] = end;
  for (++steps_; node > 1; ++steps_) {
    node /= 2;
    max_end_[node] = std::max(max_end_[2 * node], max_end_[2 * node + 1]);
  }
}

// Compares a box with the open leaves of a node that are among the first `count` leaves. `first`: the first leaf below
// the node. The depth of the recursion is the logarithm of the number of boxes.
void BoxSweep::search(std::size_t node, std::size_t first, std::size_t count, std::size_t box) {
  ++steps_;
  if (first >= count || max_end_[node] <= boxes_[box].begin[second_dim_]) return;
  if (node >= width_) {
    if (overlap(boxes_[leaves_[first]], boxes_[box])) found_.emplace_back(std::minmax(leaves_[first], box));
    return;
  }
  const std::size_t leaves = width_ >> std::bit_width(node);  // below each child
  search(2 * node, first, count, box);
  search(2 * node + 1, first + leaves, count, box);
}

}  // namespace safetensors::format
