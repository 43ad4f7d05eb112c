// Boxes of tensors that are cut over processes, in C. A box is a struct without pointers, so it has a fixed number of
// dimensions.
#include <safetensors/reshard.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "c/support.h"

namespace {
using safetensors::Box;
using safetensors::Errc;
using safetensors::Placement;
using safetensors::Result;
using safetensors::Shape;
using safetensors::ShapeView;
using safetensors::Status;
using safetensors::Transfer;
using namespace safetensors::c;

static_assert(SAFETENSORS_PLACEMENT_REPLICATE == static_cast<int>(Placement::Kind::replicate));
static_assert(SAFETENSORS_PLACEMENT_SHARD == static_cast<int>(Placement::Kind::shard));

struct Mesh {
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> coordinate;
  std::vector<Placement> placements;
};

Result<Mesh> mesh_of(const safetensors_mesh_dim* mesh, std::size_t count) {
  auto given = list_of(mesh, count, "mesh");
  if (!given) return std::move(given).error();
  Mesh made;
  for (const safetensors_mesh_dim& each : *given) {
    if (each.placement < SAFETENSORS_PLACEMENT_REPLICATE || each.placement > SAFETENSORS_PLACEMENT_SHARD)
      return invalid_argument("unknown placement " + std::to_string(each.placement));
    if (Status status = check_reserved(each.reserved); !status) return std::move(status).error();
    // A dimension that does not fit std::size_t exists in no tensor.
    const std::uint64_t dim = std::min<std::uint64_t>(each.dim, std::numeric_limits<std::size_t>::max());
    made.sizes.push_back(each.processes);
    made.coordinate.push_back(each.coordinate);
    made.placements.push_back(
        {.kind = static_cast<Placement::Kind>(each.placement), .dim = static_cast<std::size_t>(dim)});
  }
  return made;
}

Result<ShapeView> shape_of(const uint64_t* shape, std::size_t rank) {
  auto dims = list_of(shape, rank, "shape");
  if (!dims) return std::move(dims).error();
  if (rank > SAFETENSORS_INFO_DIMS)
    return make_error(Errc::unsupported, "a tensor of " + std::to_string(rank) + " dimensions, a box has at most " +
                                             std::to_string(SAFETENSORS_INFO_DIMS));
  return ShapeView(*dims);
}

Result<std::vector<Box>> boxes_of(const safetensors_box* boxes, std::size_t count, std::size_t rank, const char* name) {
  auto given = list_of(boxes, count, name);
  if (!given) return std::move(given).error();
  std::vector<Box> made;
  for (const safetensors_box& each : *given) {
    if (each.rank != rank)
      return invalid_argument(std::string(name) + " box " + std::to_string(made.size()) + " has " +
                              std::to_string(each.rank) + " dimensions, the tensor has " + std::to_string(rank));
    made.push_back({Shape(ShapeView(each.begin, rank)), Shape(ShapeView(each.size, rank))});
  }
  return made;
}

// The box has at most SAFETENSORS_INFO_DIMS dimensions.
safetensors_box given_box(const Box& box) noexcept {
  safetensors_box made{};
  made.rank = box.begin.rank();
  std::copy(box.begin.begin(), box.begin.end(), made.begin);
  std::copy(box.shape.begin(), box.shape.end(), made.size);
  return made;
}

}  // namespace

extern "C" {

safetensors_status safetensors_shard_box(const uint64_t* shape, size_t rank, const safetensors_mesh_dim* mesh,
                                         size_t mesh_count, safetensors_box* box, safetensors_error* error) {
  clear(box);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{box, "box"}}); !status) return status;
    auto dims = shape_of(shape, rank);
    if (!dims) return std::move(dims).error();
    auto processes = mesh_of(mesh, mesh_count);
    if (!processes) return std::move(processes).error();
    const Result<Box> made =
        safetensors::shard_box(*dims, processes->sizes, processes->coordinate, processes->placements);
    if (!made) return made.error();
    *box = given_box(*made);
    return {};
  });
}

safetensors_status safetensors_reshard(const uint64_t* shape, size_t rank, const safetensors_box* saved,
                                       size_t saved_count, const safetensors_box* wanted, size_t wanted_count,
                                       void (*visit)(void* user, const safetensors_transfer* transfer), void* user,
                                       safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{visit, "visit"}}); !status) return status;
    auto dims = shape_of(shape, rank);
    if (!dims) return std::move(dims).error();
    auto sources = boxes_of(saved, saved_count, rank, "saved");
    if (!sources) return std::move(sources).error();
    auto targets = boxes_of(wanted, wanted_count, rank, "wanted");
    if (!targets) return std::move(targets).error();
    const Result<std::vector<Transfer>> transfers = safetensors::reshard(*dims, *sources, *targets);
    if (!transfers) return transfers.error();
    for (const Transfer& each : *transfers) {
      const safetensors_transfer transfer = {each.source, each.target, given_box(each.in_source),
                                             given_box(each.in_target)};
      visit(user, &transfer);
    }
    return {};
  });
}

}  // extern "C"
