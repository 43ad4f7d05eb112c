// Boxes of tensors that are cut over processes, in C. The caller owns all memory: results go into arrays of the caller,
// and transfers to a function of the caller.
#include <safetensors/reshard.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "c/support.h"

namespace {
using safetensors::Box;
using safetensors::Placement;
using safetensors::Result;
using safetensors::Shape;
using safetensors::ShapeView;
using safetensors::Status;
using safetensors::Transfer;
using namespace safetensors::c;

static_assert(SAFETENSORS_PLACEMENT_REPLICATE == static_cast<int>(Placement::Kind::replicate));
static_assert(SAFETENSORS_PLACEMENT_SHARD == static_cast<int>(Placement::Kind::shard));

Result<std::vector<Placement>> placements_of(const safetensors_placement* placements, std::size_t count) {
  auto given = list_of(placements, count, "placements");
  if (!given) return std::move(given).error();
  std::vector<Placement> made;
  made.reserve(count);
  for (const safetensors_placement& each : *given) {
    if (each.kind < SAFETENSORS_PLACEMENT_REPLICATE || each.kind > SAFETENSORS_PLACEMENT_SHARD)
      return invalid_argument("unknown kind " + std::to_string(each.kind) + " of a placement");
    if (Status status = check_reserved(each.reserved); !status) return std::move(status).error();
    // A dimension that does not fit std::size_t exists in no tensor.
    const std::uint64_t dim = std::min<std::uint64_t>(each.dim, std::numeric_limits<std::size_t>::max());
    made.push_back({.kind = static_cast<Placement::Kind>(each.kind), .dim = static_cast<std::size_t>(dim)});
  }
  return made;
}

Result<Box> box_of(const uint64_t* begin, const uint64_t* size, std::size_t rank) {
  auto begins = list_of(begin, rank, "begin");
  if (!begins) return std::move(begins).error();
  auto sizes = list_of(size, rank, "size");
  if (!sizes) return std::move(sizes).error();
  return Box{Shape(*begins), Shape(*sizes)};
}

Result<std::vector<Box>> boxes_of(const safetensors_box* boxes, std::size_t count, std::size_t rank, const char* name) {
  auto given = list_of(boxes, count, name);
  if (!given) return std::move(given).error();
  std::vector<Box> made;
  made.reserve(count);
  for (const safetensors_box& each : *given) {
    auto box = box_of(each.begin, each.size, rank);
    if (!box) {
      safetensors::Error error = std::move(box).error();
      error.message = std::string(name) + " box " + std::to_string(made.size()) + ": " + error.message;
      return error;
    }
    made.push_back(*std::move(box));
  }
  return made;
}

void copy_to(ShapeView from, uint64_t* to) noexcept {
  std::copy(from.begin(), from.end(), to);
}

}  // namespace

extern "C" {

safetensors_status safetensors_shard_box(const uint64_t* shape, size_t rank, const uint64_t* mesh,
                                         const uint64_t* coordinate, const safetensors_placement* placements,
                                         size_t mesh_rank, uint64_t* begin, uint64_t* size, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (rank != 0) {
      if (Status status = require({{begin, "begin"}, {size, "size"}}); !status) return status;
    }
    auto dims = list_of(shape, rank, "shape");
    if (!dims) return std::move(dims).error();
    auto mesh_dims = list_of(mesh, mesh_rank, "mesh");
    if (!mesh_dims) return std::move(mesh_dims).error();
    auto process = list_of(coordinate, mesh_rank, "coordinate");
    if (!process) return std::move(process).error();
    auto placed = placements_of(placements, mesh_rank);
    if (!placed) return std::move(placed).error();
    const Result<Box> box = safetensors::shard_box(*dims, *mesh_dims, *process, *placed);
    if (!box) return box.error();
    copy_to(box->begin, begin);
    copy_to(box->shape, size);
    return {};
  });
}

safetensors_status safetensors_slice_box(const uint64_t* begin, const uint64_t* size, size_t rank,
                                         safetensors_slice** slice, safetensors_error* error) {
  clear(slice);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{slice, "slice"}}); !status) return status;
    auto box = box_of(begin, size, rank);
    if (!box) return std::move(box).error();
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    for (std::size_t dim = 0; dim < rank; ++dim) {
      if (begin[dim] > kMax || size[dim] > kMax - begin[dim])
        return invalid_argument("dimension " + std::to_string(dim) + " of the box has " + std::to_string(size[dim]) +
                                " indices from " + std::to_string(begin[dim]) + " on, expected indices below 2^63");
    }
    *slice = new safetensors_slice{safetensors::to_slice(*box)};
    return {};
  });
}

safetensors_status safetensors_reshard(const uint64_t* shape, size_t rank, const safetensors_box* saved,
                                       size_t saved_count, const safetensors_box* wanted, size_t wanted_count,
                                       void (*visit)(void* user, const safetensors_transfer* transfer), void* user,
                                       safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{visit, "visit"}}); !status) return status;
    auto dims = list_of(shape, rank, "shape");
    if (!dims) return std::move(dims).error();
    auto sources = boxes_of(saved, saved_count, rank, "saved");
    if (!sources) return std::move(sources).error();
    auto targets = boxes_of(wanted, wanted_count, rank, "wanted");
    if (!targets) return std::move(targets).error();
    const Result<std::vector<Transfer>> transfers = safetensors::reshard(*dims, *sources, *targets);
    if (!transfers) return transfers.error();
    for (const Transfer& each : *transfers) {
      const safetensors_transfer transfer = {each.source, each.target, each.in_source.begin.data(),
                                             each.in_target.begin.data(), each.in_target.shape.data()};
      visit(user, &transfer);
    }
    return {};
  });
}

}  // extern "C"
