// Boxes of tensors that are cut over a mesh of processes, and the transfers from one cut to another.
//
// reshard() first makes the saved boxes disjoint (disjoint_boxes.h). Then each pair of a piece and a wanted box with
// common elements is one transfer, and BoxPairs finds them without looking at other pairs. So the time and the memory
// grow with the boxes and the transfers, also if a stranger chose the boxes.
#include <safetensors/reshard.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "format/checkpoint/box_arithmetic.h"
#include "format/checkpoint/box_pairs.h"
#include "format/checkpoint/disjoint_boxes.h"

namespace safetensors {
namespace format {
namespace {

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

Error uncovered(std::size_t target, const Box& box, std::uint64_t found) {
  return base::make_error(Errc::invalid_argument, named("wanted", target) + " " + to_string(box) +
                                                      " is not in the saved boxes: they have " + std::to_string(found) +
                                                      " of its " + std::to_string(box.numel()) + " elements");
}

// The transfers from pieces of saved boxes to wanted boxes.
class Plan {
 public:
  // All arguments must be checked, and must outlive this.
  Plan(std::span<const Box> saved, std::span<const Box> wanted, std::span<const DisjointBoxes::Piece> pieces)
      : saved_(saved), pieces_(pieces) {
    for (const auto& piece : pieces) sources_.push_back(piece.box);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].numel() == 0) continue;
      targets_.push_back(&wanted[i]);
      target_of_.push_back(i);
    }
  }

  // Counts the elements before it makes any transfer, so a request that fails needs no memory for transfers.
  Result<std::vector<Transfer>> make() {
    BoxPairs pairs(sources_, targets_);
    std::vector<std::uint64_t> found(targets_.size());
    std::size_t count = 0;
    pairs.each([&](std::size_t piece, std::size_t target) {
      found[target] += common_numel(*sources_[piece], *targets_[target]);
      return ++count != 0;
    });
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] != targets_[i]->numel()) return uncovered(target_of_[i], *targets_[i], found[i]);
    }
    std::vector<std::pair<std::size_t, std::size_t>> moves;  // target and piece
    moves.reserve(count);
    pairs.each([&](std::size_t piece, std::size_t target) {
      moves.emplace_back(target, piece);
      return true;
    });
    std::sort(moves.begin(), moves.end());
    std::vector<Transfer> transfers;
    transfers.reserve(count);
    for (const auto& [target, piece] : moves) transfers.push_back(transfer(piece, target));
    return transfers;
  }

 private:
  // The piece and the target have an element in common.
  [[nodiscard]] Transfer transfer(std::size_t piece, std::size_t target) const {
    const std::size_t source = pieces_[piece].source;
    const Box part = intersection(*sources_[piece], *targets_[target]).value();
    return {source, target_of_[target], relative(part, saved_[source]), relative(part, *targets_[target])};
  }

  std::span<const Box> saved_;
  std::span<const DisjointBoxes::Piece> pieces_;
  std::vector<const Box*> sources_;     // the boxes of the pieces
  std::vector<const Box*> targets_;     // the wanted boxes that are not empty
  std::vector<std::size_t> target_of_;  // ... and their indexes
};

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
    const Result<format::DisjointBoxes> disjoint = format::DisjointBoxes::of(saved, shape.size());
    if (!disjoint) return disjoint.error();
    return format::Plan(saved, wanted, disjoint->pieces()).make();
  });
}

}  // namespace v0
}  // namespace safetensors
