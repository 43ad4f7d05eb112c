// See disjoint_boxes.h. A box is cut by one earlier box after the other, and each piece is compared only with the
// earlier boxes that overlap it. The box that takes most of a piece cuts it first. So if little remains in the
// end, most of the piece is gone soon.
#include "format/checkpoint/disjoint_boxes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "format/checkpoint/box_arithmetic.h"
#include "format/checkpoint/box_pairs.h"

namespace safetensors::format {
namespace {

constexpr std::uint64_t kStepsPerOverlap = 64;

Error too_many(std::size_t boxes, std::uint64_t limit, const char* things) {
  return base::make_error(Errc::invalid_argument, "too many of " + std::to_string(boxes) +
                                                      " saved boxes overlap without being equal: more than " +
                                                      std::to_string(limit) + " " + things);
}

// Appends the boxes that remain of `box` without `taken`: at most two per dimension.
void subtract(Box box, const Box& taken, std::vector<Box>& remaining) {
  const std::optional<Box> both = intersection(box, taken);
  if (!both) return remaining.push_back(std::move(box));
  for (std::size_t dim = 0; dim < box.shape.rank(); ++dim) {
    const std::uint64_t end = end_of(box, dim);
    const auto keep = [&](std::uint64_t from, std::uint64_t to) {
      if (from == to) return;
      Box& part = remaining.emplace_back(box);
      part.begin.data()[dim] = from;
      part.shape.data()[dim] = to - from;
    };
    keep(box.begin[dim], both->begin[dim]);
    keep(end_of(*both, dim), end);
    // Later dimensions cut only the indices that `taken` has in this dimension.
    box.begin.data()[dim] = both->begin[dim];
    box.shape.data()[dim] = both->shape[dim];
  }
}

// Returns the index of the taker that cuts `part` first. If the largest taker takes at least half of the part, returns
// this one, so that little remains. Otherwise returns the taker in the middle: if the takers are boxes in a row, it
// halves the part.
std::size_t first_taker(const Box& part, std::span<const Box*> takers) {
  std::size_t largest = 0;
  std::uint64_t max = 0;
  for (std::size_t i = 0; i < takers.size(); ++i) {
    const std::uint64_t common = common_numel(part, *takers[i]);
    if (common > max) max = common, largest = i;
  }
  return max >= part.numel() / 2 ? largest : takers.size() / 2;
}

}  // namespace

Result<DisjointBoxes> DisjointBoxes::of(std::span<const Box> boxes, std::size_t rank) {
  DisjointBoxes made(boxes);
  made.choose();
  const std::vector<std::size_t> dims = made.dims_that_differ(rank);
  if (made.chosen_.size() > 1 && dims.size() == 1) {
    made.cut_ranges(dims[0]);
    return made;
  }
  const Result<Overlaps> overlaps = made.overlaps();
  if (!overlaps) return overlaps.error();
  if (Status status = made.cut_all(*overlaps); !status) return status.error();
  return made;
}

// Chooses the box with the lowest index if several are equal.
void DisjointBoxes::choose() {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (boxes_[i].numel() != 0) chosen_.push_back(i);
  }
  const auto less = [this](std::size_t a, std::size_t b) {
    const Box &x = boxes_[a], &y = boxes_[b];
    if (!(x.begin == y.begin))
      return std::lexicographical_compare(x.begin.begin(), x.begin.end(), y.begin.begin(), y.begin.end());
    if (!(x.shape == y.shape))
      return std::lexicographical_compare(x.shape.begin(), x.shape.end(), y.shape.begin(), y.shape.end());
    return a < b;
  };
  std::sort(chosen_.begin(), chosen_.end(), less);
  const auto equal = [this](std::size_t a, std::size_t b) { return boxes_[a] == boxes_[b]; };
  chosen_.erase(std::unique(chosen_.begin(), chosen_.end(), equal), chosen_.end());
  std::sort(chosen_.begin(), chosen_.end());
}

std::vector<std::size_t> DisjointBoxes::dims_that_differ(std::size_t rank) const {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 0; dim < rank; ++dim) {
    const auto differs = [&](std::size_t i) {
      const Box &box = boxes_[i], &first = boxes_[chosen_[0]];
      return box.begin[dim] != first.begin[dim] || box.shape[dim] != first.shape[dim];
    };
    if (std::any_of(chosen_.begin(), chosen_.end(), differs)) dims.push_back(dim);
  }
  return dims;
}

// Cuts boxes that differ only in dimension `dim`. `taken` has the indices of all boxes so far, as ranges that do not
// touch. Each box removes the ranges that it touches and adds one, so the steps are at most twice the number of boxes.
void DisjointBoxes::cut_ranges(std::size_t dim) {
  std::map<std::uint64_t, std::uint64_t> taken;
  for (const std::size_t source : chosen_) {
    const Box& box = boxes_[source];
    std::uint64_t begin = box.begin[dim], end = end_of(box, dim);
    std::uint64_t next = begin;  // the first index that is not decided
    const auto keep = [&](std::uint64_t to) {
      if (next >= to) return;
      Box part = box;
      part.begin.data()[dim] = next;
      part.shape.data()[dim] = to - next;
      add_cut(source, std::move(part));
    };
    auto range = taken.upper_bound(begin);
    if (range != taken.begin() && std::prev(range)->second >= begin) --range;
    for (++steps_; range != taken.end() && range->first <= end; ++steps_) {
      keep(range->first);
      next = std::max(next, range->second);
      begin = std::min(begin, range->first);
      range = taken.erase(range);
    }
    keep(end);
    taken.emplace(begin, std::max(next, end));
  }
}

// Returns the pairs of indexes of boxes that overlap: the later one first, in ascending order.
Result<DisjointBoxes::Overlaps> DisjointBoxes::overlaps() {
  std::vector<const Box*> boxes;
  for (const std::size_t i : chosen_) boxes.push_back(&boxes_[i]);
  const std::uint64_t limit = max_overlaps(boxes_.size());
  Overlaps found;
  BoxPairs pairs(boxes);
  const bool all = pairs.each([&](std::size_t earlier, std::size_t later) {
    found.emplace_back(chosen_[later], chosen_[earlier]);
    return found.size() <= limit;
  });
  steps_ += pairs.steps();
  if (!all) return too_many(boxes_.size(), limit, "pairs");
  std::sort(found.begin(), found.end());
  return found;
}

Status DisjointBoxes::cut_all(const Overlaps& overlaps) {
  auto pair = overlaps.begin();
  std::vector<const Box*> takers;
  for (const std::size_t source : chosen_) {
    takers.clear();
    for (; pair != overlaps.end() && pair->first == source; ++pair) takers.push_back(&boxes_[pair->second]);
    if (takers.empty()) {
      pieces_.push_back({&boxes_[source], source});
    } else if (Status status = cut(source, takers); !status) {
      return status;
    }
  }
  return {};
}

// Adds the parts of a box that remain without the takers. Changes the order of the takers. A level has the parts that
// remain after a cut by one taker. They are compared with the first `takers` takers of the list. Work on later levels
// changes only the order of these.
Status DisjointBoxes::cut(std::size_t source, std::span<const Box*> takers) {
  struct Level {
    std::vector<Box> parts;  // not compared yet
    std::size_t takers;
  };
  const std::uint64_t limit = max_overlaps(boxes_.size());
  std::vector<Level> levels;
  levels.push_back({{boxes_[source]}, takers.size()});
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.parts.empty()) {
      levels.pop_back();
      continue;
    }
    const Box part = std::move(level.parts.back());
    level.parts.pop_back();
    const std::span<const Box*> all = takers.first(level.takers);
    const auto apart = std::partition(all.begin(), all.end(), [&](const Box* taker) { return overlap(part, *taker); });
    const std::span<const Box*> left = all.first(static_cast<std::size_t>(apart - all.begin()));
    cutting_ += all.size() + left.size();
    if (cutting_ > kStepsPerOverlap * limit) return too_many(boxes_.size(), kStepsPerOverlap * limit, "steps");
    if (left.empty()) {
      if (cut_.size() == limit) return too_many(boxes_.size(), limit, "pieces");
      add_cut(source, part);
      continue;
    }
    std::swap(left[first_taker(part, left)], left.back());
    Level below{{}, left.size() - 1};
    subtract(part, *left.back(), below.parts);
    levels.push_back(std::move(below));
  }
  return {};
}

void DisjointBoxes::add_cut(std::size_t source, Box box) {
  const Box* piece = &boxes_[source];
  if (box != *piece) piece = &cut_.emplace_back(std::move(box));
  pieces_.push_back({piece, source});
}

}  // namespace safetensors::format
