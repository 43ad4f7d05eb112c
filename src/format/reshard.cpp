// Boxes of tensors that are cut over a mesh of processes, and the transfers from one cut to another.
//
// reshard() first makes the saved boxes disjoint: equal boxes count once, and of boxes that overlap, each later one
// lists the earlier ones. Then it intersects each wanted box with each saved box that may touch it, and takes away what
// the earlier ones gave. The boxes are sorted along the dimension with the most cuts, so a binary search skips most
// pairs.
#include <safetensors/reshard.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "format/box_sweep.h"

namespace safetensors {
namespace format {
namespace {

// Returns the box that both have, or nullopt if it is empty. Both are checked and have the same rank.
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

// The box with indexes relative to the first index of a part.
Box relative(const Box& box, const Box& part) {
  Box moved = box;
  for (std::size_t dim = 0; dim < box.shape.rank(); ++dim) moved.begin.data()[dim] -= part.begin[dim];
  return moved;
}

std::string named(const char* kind, std::size_t index) {
  return std::string(kind) + " box " + std::to_string(index);
}

Status check_boxes(ShapeView shape, const char* kind, std::span<const Box> boxes) {
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Box& box = boxes[i];
    if (box.begin.rank() != shape.size() || box.shape.rank() != shape.size())
      return base::make_error(Errc::invalid_argument, named(kind, i) + " has " + std::to_string(box.begin.rank()) +
                                                          " begins and " + std::to_string(box.shape.rank()) +
                                                          " sizes, expected " + std::to_string(shape.size()) +
                                                          ", the dimensions of the tensor");
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      if (box.begin[dim] <= shape[dim] && box.shape[dim] <= shape[dim] - box.begin[dim]) continue;
      return base::make_error(Errc::invalid_argument, named(kind, i) + " has " + std::to_string(box.shape[dim]) +
                                                          " indices from " + std::to_string(box.begin[dim]) +
                                                          " on in dimension " + std::to_string(dim) +
                                                          ", the tensor has " + std::to_string(shape[dim]));
    }
  }
  return {};
}

// The saved boxes that are not empty, without repetition.
class Sources {
 public:
  // The boxes must be checked, and must outlive this.
  explicit Sources(std::span<const Box> saved, std::size_t rank) : saved_(saved) {
    for (std::size_t i = 0; i < saved.size(); ++i) {
      if (saved[i].numel() != 0) order_.push_back(i);
    }
    remove_repeated();
    const std::vector<std::size_t> dims = dims_by_cuts(saved, order_, rank);
    earlier_.resize(saved.size());
    for (const auto& [earlier, later] : BoxSweep(saved, order_, dims).pairs()) earlier_[later].push_back(earlier);
    if (rank != 0) sort_along(dims[0]);
  }

  // Calls use(source, box) for each box of `wanted` that a source gives, in the order of sources.
  template <class Use>
  void each(const Box& wanted, Use&& use) const {
    std::vector<std::size_t> candidates = touching(wanted);
    std::sort(candidates.begin(), candidates.end());
    for (const std::size_t source : candidates) {
      std::optional<Box> both = intersection(saved_[source], wanted);
      if (!both) continue;
      std::vector<Box> boxes{*std::move(both)};
      for (const std::size_t earlier : earlier_[source]) {
        std::vector<Box> remaining;
        for (Box& box : boxes) subtract(std::move(box), saved_[earlier], remaining);
        boxes = std::move(remaining);
      }
      for (const Box& box : boxes) use(source, box);
    }
  }

 private:
  // Of equal boxes, keeps the one with the lowest index.
  void remove_repeated() {
    const auto less = [this](std::size_t a, std::size_t b) {
      const Box &x = saved_[a], &y = saved_[b];
      if (!(x.begin == y.begin))
        return std::lexicographical_compare(x.begin.begin(), x.begin.end(), y.begin.begin(), y.begin.end());
      if (!(x.shape == y.shape))
        return std::lexicographical_compare(x.shape.begin(), x.shape.end(), y.shape.begin(), y.shape.end());
      return a < b;
    };
    std::sort(order_.begin(), order_.end(), less);
    const auto equal = [this](std::size_t a, std::size_t b) { return saved_[a] == saved_[b]; };
    order_.erase(std::unique(order_.begin(), order_.end(), equal), order_.end());
  }

  // Sorts the boxes by their begin in a dimension.
  void sort_along(std::size_t dim) {
    dim_ = dim;
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) { return begin(a) < begin(b); });
    max_end_.reserve(order_.size());
    for (const std::size_t i : order_)
      max_end_.push_back(std::max(max_end_.empty() ? 0 : max_end_.back(), end_of(saved_[i], dim_)));
  }

  // The sources that overlap a box along dim_. max_end_ ascends, so a binary search finds the first one, too.
  [[nodiscard]] std::vector<std::size_t> touching(const Box& wanted) const {
    if (max_end_.empty()) return order_;
    const auto first = std::upper_bound(max_end_.begin(), max_end_.end(), wanted.begin[dim_]) - max_end_.begin();
    const auto last = std::partition_point(order_.begin() + first, order_.end(),
                                           [&](std::size_t i) { return begin(i) < end_of(wanted, dim_); });
    return {order_.begin() + first, last};
  }

  [[nodiscard]] std::uint64_t begin(std::size_t i) const noexcept { return saved_[i].begin[dim_]; }

  std::span<const Box> saved_;
  std::vector<std::size_t> order_;                 // indexes of boxes
  std::vector<std::vector<std::size_t>> earlier_;  // per box, the overlapping boxes with lower indexes
  std::size_t dim_ = 0;
  std::vector<std::uint64_t> max_end_;  // the largest end of the boxes so far in order_; empty for scalars
};

Error uncovered(std::size_t target, const Box& box, std::uint64_t found) {
  return base::make_error(Errc::invalid_argument, named("wanted", target) + " " + to_string(box) +
                                                      " is not in the saved boxes: they have " + std::to_string(found) +
                                                      " of its " + std::to_string(box.numel()) + " elements");
}

// A dimension of a tensor that is being cut.
struct Cut {
  std::uint64_t begin;
  std::uint64_t size;
};

// Part `rank` of `parts`, which are chunks of ceil(size / parts).
Cut chunk_of(const Cut& whole, std::uint64_t rank, std::uint64_t parts) noexcept {
  const std::uint64_t chunk = whole.size / parts + (whole.size % parts == 0 ? 0 : 1);
  std::uint64_t begin = 0;
  if (!base::multiply(rank, chunk, begin) || begin > whole.size) begin = whole.size;
  return {whole.begin + begin, std::min(chunk, whole.size - begin)};
}

Status check_mesh(ShapeView shape, ShapeView mesh, ShapeView coordinate, std::span<const Placement> placements) {
  if (coordinate.size() != mesh.size() || placements.size() != mesh.size())
    return base::make_error(Errc::invalid_argument, "a mesh of " + std::to_string(mesh.size()) + " dimensions has " +
                                                        std::to_string(coordinate.size()) + " coordinates and " +
                                                        std::to_string(placements.size()) + " placements");
  for (std::size_t i = 0; i < mesh.size(); ++i) {
    if (coordinate[i] >= mesh[i])
      return base::make_error(Errc::invalid_argument, "coordinate " + std::to_string(coordinate[i]) +
                                                          " is outside of dimension " + std::to_string(i) +
                                                          " of the mesh, which has " + std::to_string(mesh[i]) +
                                                          " processes");
    if (placements[i].kind == Placement::Kind::shard && placements[i].dim >= shape.size())
      return base::make_error(Errc::invalid_argument, "placement " + std::to_string(i) + " cuts dimension " +
                                                          std::to_string(placements[i].dim) + ", the tensor has " +
                                                          std::to_string(shape.size()) + " dimensions");
  }
  return {};
}

}  // namespace
}  // namespace format

inline namespace v0 {

std::string to_string(const Box& box) {
  std::string text = "[";
  for (std::size_t dim = 0; dim < box.begin.rank() && dim < box.shape.rank(); ++dim)
    text +=
        (dim == 0 ? "" : ", ") + std::to_string(box.begin[dim]) + ":" + std::to_string(box.begin[dim] + box.shape[dim]);
  return text + "]";
}

Slice to_slice(const Box& box) {
  std::vector<DimSlice> dims;
  for (std::size_t dim = 0; dim < box.begin.rank(); ++dim)
    dims.push_back(DimSlice::range(static_cast<std::int64_t>(box.begin[dim]),
                                   static_cast<std::int64_t>(box.begin[dim] + box.shape[dim])));
  return Slice(std::move(dims));
}

Result<Box> shard_box(ShapeView shape, ShapeView mesh, ShapeView coordinate,
                      std::span<const Placement> placements) noexcept {
  return base::guarded([&]() -> Result<Box> {
    if (Status status = format::check_mesh(shape, mesh, coordinate, placements); !status)
      return std::move(status).error();
    Box box{Shape(shape), Shape(shape)};
    std::fill_n(box.begin.data(), shape.size(), 0);
    for (std::size_t i = 0; i < mesh.size(); ++i) {
      if (placements[i].kind != Placement::Kind::shard) continue;
      const std::size_t dim = placements[i].dim;
      const format::Cut cut = format::chunk_of({box.begin[dim], box.shape[dim]}, coordinate[i], mesh[i]);
      box.begin.data()[dim] = cut.begin;
      box.shape.data()[dim] = cut.size;
    }
    return box;
  });
}

Result<std::vector<Transfer>> reshard(ShapeView shape, std::span<const Box> saved,
                                      std::span<const Box> wanted) noexcept {
  return base::guarded([&]() -> Result<std::vector<Transfer>> {
    std::uint64_t elements = 1;
    for (const std::uint64_t size : shape) {
      if (numel(shape) != 0 && !base::multiply(elements, size, elements))
        return base::make_error(Errc::size_overflow,
                                "a tensor of shape " + to_string(shape) + " has more than 2^64-1 elements");
    }
    if (Status status = format::check_boxes(shape, "saved", saved); !status) return std::move(status).error();
    if (Status status = format::check_boxes(shape, "wanted", wanted); !status) return std::move(status).error();
    const format::Sources sources(saved, shape.size());
    std::vector<Transfer> transfers;
    for (std::size_t target = 0; target < wanted.size(); ++target) {
      const Box& box = wanted[target];
      if (box.numel() == 0) continue;
      std::uint64_t found = 0;
      sources.each(box, [&](std::size_t source, const Box& part) {
        found += part.numel();
        transfers.push_back({source, target, format::relative(part, saved[source]), format::relative(part, box)});
      });
      if (found != box.numel()) return format::uncovered(target, box, found);
    }
    return transfers;
  });
}

}  // namespace v0
}  // namespace safetensors
