// Slices in C: building a slice, resolving it for a dtype and shape, and walking over its runs.
#include <vector>

#include "c/support.h"

namespace {
using safetensors::DimSlice;
using safetensors::ResolvedSlice;
using safetensors::Result;
using safetensors::Slice;
using safetensors::Status;
using namespace safetensors::c;

static_assert(SAFETENSORS_DIM_KIND_ALL == static_cast<int>(DimSlice::Kind::all));
static_assert(SAFETENSORS_DIM_KIND_INDEX == static_cast<int>(DimSlice::Kind::index));
static_assert(SAFETENSORS_DIM_KIND_RANGE == static_cast<int>(DimSlice::Kind::range));
static_assert(SAFETENSORS_DIM_KIND_SHARD == static_cast<int>(DimSlice::Kind::shard));
static_assert(SAFETENSORS_DIM_KIND_ELLIPSIS == static_cast<int>(DimSlice::Kind::ellipsis));

Result<DimSlice> dim_of(const safetensors_dim_slice& given) {
  if (given.kind < SAFETENSORS_DIM_KIND_ALL || given.kind > SAFETENSORS_DIM_KIND_ELLIPSIS)
    return invalid_argument("unknown kind " + std::to_string(given.kind) + " of a dimension's slice");
  DimSlice dim;
  dim.kind = static_cast<DimSlice::Kind>(given.kind);
  dim.index = given.index;
  if (given.has_begin != 0) dim.begin = given.begin;
  if (given.has_end != 0) dim.end = given.end;
  dim.step = given.step;
  dim.rank = given.shard_rank;
  dim.world = given.shard_world;
  return dim;
}
}  // namespace

extern "C" {

safetensors_status safetensors_slice_create(const safetensors_dim_slice* dims, size_t count, safetensors_slice** slice,
                                            safetensors_error* error) {
  clear(slice);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{slice, "slice"}}); !status) return status;
    auto given = list_of(dims, count, "dims");
    if (!given) return std::move(given).error();
    std::vector<DimSlice> made;
    made.reserve(count);
    for (const safetensors_dim_slice& each : *given) {
      auto dim = dim_of(each);
      if (!dim) return std::move(dim).error();
      made.push_back(*dim);
    }
    *slice = new safetensors_slice{Slice(std::move(made))};
    return {};
  });
}

safetensors_status safetensors_slice_shard(int64_t dim, uint64_t rank, uint64_t world, safetensors_slice** slice,
                                           safetensors_error* error) {
  clear(slice);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{slice, "slice"}}); !status) return status;
    *slice = new safetensors_slice{Slice::shard(dim, rank, world)};
    return {};
  });
}

safetensors_status safetensors_slice_parse(const char* text, size_t length, safetensors_slice** slice,
                                           safetensors_error* error) {
  clear(slice);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{slice, "slice"}}); !status) return status;
    auto given = text_of(text, length, "text");
    if (!given) return std::move(given).error();
    return hand_out(Slice::parse(*given), slice);
  });
}

void safetensors_slice_free(safetensors_slice* slice) {
  delete slice;
}

safetensors_status safetensors_slice_resolve(const safetensors_slice* slice, safetensors_dtype dtype,
                                             const uint64_t* shape, size_t rank, safetensors_resolved_slice** resolved,
                                             safetensors_error* error) {
  clear(resolved);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{resolved, "resolved"}}); !status) return status;
    auto known = dtype_of(dtype);
    if (!known) return std::move(known).error();
    auto dims = list_of(shape, rank, "shape");
    if (!dims) return std::move(dims).error();
    auto result = (slice ? slice->slice : Slice::all()).resolve(*known, *dims);
    if (!result) return std::move(result).error();
    *resolved = new safetensors_resolved_slice{std::make_shared<const ResolvedSlice>(*std::move(result))};
    return {};
  });
}

void safetensors_resolved_slice_free(safetensors_resolved_slice* resolved) {
  delete resolved;
}

safetensors_status safetensors_resolved_slice_shape(const safetensors_resolved_slice* resolved, uint64_t* shape,
                                                    size_t capacity, size_t* rank, safetensors_error* error) {
  clear(rank);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{resolved, "resolved"}, {rank, "rank"}}); !status) return status;
    return copy_out<uint64_t>(resolved->slice->shape(), shape, capacity, rank);
  });
}

safetensors_status safetensors_resolved_slice_size(const safetensors_resolved_slice* resolved, uint64_t* nbytes,
                                                   uint64_t* run_count, safetensors_error* error) {
  clear(nbytes, run_count);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{resolved, "resolved"}}); !status) return status;
    if (nbytes) *nbytes = resolved->slice->nbytes();
    if (run_count) *run_count = resolved->slice->run_count();
    return {};
  });
}

}  // extern "C"
