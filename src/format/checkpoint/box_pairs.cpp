// See box_pairs.h for the algorithm. A dimension in which all boxes overlap separates no pair, and is left out. The
// search begins with the dimension that separates most pairs. It looks at other dimensions only for boxes that overlap
// in this one.
#include "format/checkpoint/box_pairs.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "format/checkpoint/box_arithmetic.h"

namespace safetensors::format {
namespace {

// Up to this length of a list, comparing all pairs takes less time than halving the list.
constexpr std::size_t kFew = 8;

std::vector<const Box*> joined(BoxPairs::Boxes left, BoxPairs::Boxes right) {
  std::vector<const Box*> boxes(left.begin(), left.end());
  boxes.insert(boxes.end(), right.begin(), right.end());
  return boxes;
}

}  // namespace

BoxPairs::BoxPairs(Boxes boxes) : BoxPairs(boxes, {}) {
  one_list_ = true;
}

BoxPairs::BoxPairs(Boxes left, Boxes right) : count_(left.size() + right.size()), left_(left.size()) {
  const std::vector<const Box*> boxes = joined(left, right);
  const std::size_t rank = boxes.empty() ? 0 : boxes[0]->shape.rank();
  for (std::size_t dim = 0; dim < rank; ++dim) {
    std::uint64_t last_begin = 0;
    std::uint64_t first_end = ~std::uint64_t{0};
    for (const Box* box : boxes) {
      last_begin = std::max(last_begin, box->begin[dim]);
      first_end = std::min(first_end, end_of(*box, dim));
    }
    if (last_begin >= first_end) add_dim(boxes, dim);
  }
  // Nothing separates the boxes: each range has all begins.
  if (dims_.empty()) {
    dims_.emplace_back(count_);
    for (std::size_t i = 0; i < count_; ++i) dims_[0][i] = {i, count_};
  }
  sort_dims();
}

void BoxPairs::add_dim(const std::vector<const Box*>& boxes, std::size_t dim) {
  std::vector<std::size_t> order(count_);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(boxes[a]->begin[dim], a) < std::pair(boxes[b]->begin[dim], b);
  });
  std::vector<Range>& ranges = dims_.emplace_back(count_);
  for (std::size_t number = 0; number < count_; ++number) {
    const Box& box = *boxes[order[number]];
    const auto end = std::partition_point(order.begin(), order.end(),
                                          [&](std::size_t i) { return boxes[i]->begin[dim] < end_of(box, dim); });
    ranges[order[number]] = {number, static_cast<std::size_t>(end - order.begin())};
  }
}

// Puts the dimension with the fewest overlaps last.
void BoxPairs::sort_dims() {
  std::vector<std::pair<std::uint64_t, std::size_t>> overlaps;
  for (std::size_t dim = 0; dim < dims_.size(); ++dim) {
    std::uint64_t sum = 0;
    for (const Range& range : dims_[dim]) sum += range.end - range.begin;
    overlaps.emplace_back(sum, dim);
  }
  std::sort(overlaps.rbegin(), overlaps.rend());
  std::vector<std::vector<Range>> sorted;
  sorted.reserve(dims_.size());
  for (const auto& [sum, dim] : overlaps) sorted.push_back(std::move(dims_[dim]));
  dims_ = std::move(sorted);
}

bool BoxPairs::each(const Visit& visit) {
  visit_ = &visit;
  std::vector<std::size_t> left(left_), right(one_list_ ? left_ : count_ - left_);
  std::iota(left.begin(), left.end(), 0);
  std::iota(right.begin(), right.end(), one_list_ ? 0 : left_);
  const std::size_t dim = dims_.size() - 1;
  return search(left, right, dim) && (one_list_ || search(right, left, dim));
}

// Reports the pairs of a range and a point for which the range holds the begin of the point in dimension `dim`, and
// which overlap in all dimensions before `dim`. Changes the order of both lists. The depth of the recursion is at most
// the number of dimensions times the logarithm of the number of boxes.
bool BoxPairs::search(Indexes ranges, Indexes points, std::size_t dim) {
  if (ranges.empty() || points.empty()) return true;
  if (std::min(ranges.size(), points.size()) <= kFew) return compare(ranges, points, dim);
  if (dim == 0) return scan(ranges, points);
  steps_ += ranges.size() + points.size();
  const std::vector<Range>& in = dims_[dim];
  const auto by_begin = [&](std::size_t a, std::size_t b) { return in[a].begin < in[b].begin; };
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_begin);
  const std::size_t first = in[*low].begin;
  const std::size_t last = in[*high].begin;
  const auto rest = std::partition(ranges.begin(), ranges.end(),
                                   [&](std::size_t i) { return in[i].begin <= first && in[i].end > last; });
  const Indexes whole(ranges.begin(), rest);
  if (!search(whole, points, dim - 1) || !search(points, whole, dim - 1)) return false;
  const auto middle = points.begin() + static_cast<std::ptrdiff_t>(points.size() / 2);
  std::nth_element(points.begin(), middle, points.end(), by_begin);
  const Indexes partial(rest, ranges.end());
  return search_half(partial, {points.begin(), middle}, dim) && search_half(partial, {middle, points.end()}, dim);
}

// Searches with the ranges that reach the points. `points` is not empty.
bool BoxPairs::search_half(Indexes ranges, Indexes points, std::size_t dim) {
  steps_ += ranges.size() + points.size();
  const std::vector<Range>& in = dims_[dim];
  const auto by_begin = [&](std::size_t a, std::size_t b) { return in[a].begin < in[b].begin; };
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_begin);
  const std::size_t first = in[*low].begin;
  const std::size_t last = in[*high].begin;
  const auto apart = std::partition(ranges.begin(), ranges.end(),
                                    [&](std::size_t i) { return in[i].begin <= last && in[i].end > first; });
  return search({ranges.begin(), apart}, points, dim);
}

// Compares all pairs.
bool BoxPairs::compare(Indexes ranges, Indexes points, std::size_t dim) {
  steps_ += ranges.size() * points.size();
  for (const std::size_t range : ranges) {
    for (const std::size_t point : points) {
      bool both = holds(range, point, dim);
      for (std::size_t i = 0; both && i < dim; ++i) both = holds(range, point, i) || holds(point, range, i);
      if (both && !report(range, point)) return false;
    }
  }
  return true;
}

// Reports the pairs in the first dimension: all others are known to overlap.
bool BoxPairs::scan(Indexes ranges, Indexes points) {
  steps_ += ranges.size() + points.size();
  const std::vector<Range>& in = dims_[0];
  std::sort(points.begin(), points.end(), [&](std::size_t a, std::size_t b) { return in[a].begin < in[b].begin; });
  for (const std::size_t range : ranges) {
    auto point = std::partition_point(points.begin(), points.end(),
                                      [&](std::size_t i) { return in[i].begin < in[range].begin; });
    for (; point != points.end() && in[*point].begin < in[range].end; ++point) {
      ++steps_;
      if (!report(range, *point)) return false;
    }
  }
  return true;
}

bool BoxPairs::holds(std::size_t range, std::size_t point, std::size_t dim) const noexcept {
  const std::vector<Range>& in = dims_[dim];
  return in[range].begin <= in[point].begin && in[point].begin < in[range].end;
}

bool BoxPairs::report(std::size_t a, std::size_t b) {
  if (a == b) return true;  // of one list, each box overlaps itself
  const auto [low, high] = std::minmax(a, b);
  return (*visit_)(low, one_list_ ? high : high - left_);
}

}  // namespace safetensors::format
