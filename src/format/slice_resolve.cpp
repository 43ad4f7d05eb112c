// From a Slice, a dtype and a shape to loops around byte runs.
#include <safetensors/shape.h>
#include <safetensors/slice.h>

#include <algorithm>
#include <new>
#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "format/slice.h"

namespace safetensors {
namespace format {
namespace {

using base::magnitude;
using Loop = detail::SliceAccess::Loop;

// The elements taken of one dimension: start, start + step, ... `count` of them. step is two's complement: sums and
// products of it with other numbers are right modulo 2^64, and every true offset is below that.
struct Pick {
  std::uint64_t start = 0;
  std::uint64_t count = 0;
  std::uint64_t step = 1;
  bool keeps_dimension = true;
};

std::string dimension_text(std::size_t dim, std::uint64_t size) {
  return "dimension " + std::to_string(dim) + " of size " + std::to_string(size);
}

// A bound of a forward range, in 0..size.
std::uint64_t clamp_forward(std::int64_t bound, std::uint64_t size) {
  if (bound >= 0) return std::min(magnitude(bound), size);
  return magnitude(bound) > size ? 0 : size - magnitude(bound);
}

// A bound of a backward range, in -1..size-1, and one added so that it is never negative.
std::uint64_t clamp_backward(std::int64_t bound, std::uint64_t size) {
  if (bound >= 0) return magnitude(bound) >= size ? size : magnitude(bound) + 1;
  return magnitude(bound) > size ? 0 : size - magnitude(bound) + 1;
}

Result<Pick> pick_index(std::int64_t index, std::size_t dim, std::uint64_t size) {
  const bool inside = index < 0 ? magnitude(index) <= size : magnitude(index) < size;
  if (!inside) {
    return base::make_error(Errc::slice_index,
                            "index " + std::to_string(index) + " is out of range for " + dimension_text(dim, size));
  }
  const std::uint64_t start = index < 0 ? size - magnitude(index) : magnitude(index);
  return Pick{.start = start, .count = 1, .keeps_dimension = false};
}

Result<Pick> pick_range(const DimSlice& range, std::size_t dim, std::uint64_t size) {
  if (range.step == 0)
    return base::make_error(Errc::slice_step, "step 0 for " + dimension_text(dim, size) + ": want 1, -1 or more");
  const std::uint64_t step = magnitude(range.step);
  if (range.step > 0) {
    const std::uint64_t begin = range.begin ? clamp_forward(*range.begin, size) : 0;
    const std::uint64_t end = range.end ? clamp_forward(*range.end, size) : size;
    return Pick{.start = begin, .count = begin < end ? (end - begin - 1) / step + 1 : 0, .step = step};
  }
  const std::uint64_t begin = range.begin ? clamp_backward(*range.begin, size) : size;
  const std::uint64_t end = range.end ? clamp_backward(*range.end, size) : 0;
  return Pick{.start = begin - 1, .count = begin > end ? (begin - end - 1) / step + 1 : 0, .step = 0 - step};
}

Result<Pick> pick_shard(const DimSlice& shard, std::size_t dim, std::uint64_t size) {
  if (shard.rank >= shard.world) {
    return base::make_error(Errc::slice_index, "shard " + std::to_string(shard.rank) + " of " +
                                                   std::to_string(shard.world) + " of " + dimension_text(dim, size) +
                                                   ": shards count from 0 to below the world");
  }
  const std::uint64_t part = size / shard.world;
  const std::uint64_t longer = size % shard.world;
  return Pick{.start = shard.rank * part + std::min(shard.rank, longer), .count = part + (shard.rank < longer ? 1 : 0)};
}

// Which element of the Slice is for which dimension of the tensor, whatever way it was written.
class Request {
 public:
  Request(const std::vector<DimSlice>& dims, std::optional<std::int64_t> only_dim, std::size_t rank)
      : dims_(dims), only_dim_(only_dim), rank_(rank) {}

  Status check() {
    if (only_dim_) return check_only_dim();
    std::size_t named = 0;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      if (dims_[i].kind != DimSlice::Kind::ellipsis) {
        ++named;
      } else if (has_ellipsis_) {
        return base::make_error(Errc::slice_rank, "more than one ellipsis: element " + std::to_string(ellipsis_) +
                                                      " and element " + std::to_string(i) + " of the slice");
      } else {
        has_ellipsis_ = true;
        ellipsis_ = i;
      }
    }
    if (named > rank_) {
      return base::make_error(Errc::slice_rank, "too many indices: the slice has " + std::to_string(named) +
                                                    ", the tensor has " + std::to_string(rank_) +
                                                    (rank_ == 1 ? " dimension" : " dimensions"));
    }
    before_ = has_ellipsis_ ? ellipsis_ : named;
    after_ = named - before_;
    return {};
  }

  Result<Pick> pick(std::size_t dim, std::uint64_t size) const {
    const DimSlice* request = find(dim);
    switch (request ? request->kind : DimSlice::Kind::all) {
      case DimSlice::Kind::index:
        return pick_index(request->index, dim, size);
      case DimSlice::Kind::range:
        return pick_range(*request, dim, size);
      case DimSlice::Kind::shard:
        return pick_shard(*request, dim, size);
      case DimSlice::Kind::all:
      case DimSlice::Kind::ellipsis:
        break;
    }
    return Pick{.count = size};
  }

 private:
  Status check_only_dim() {
    const std::uint64_t distance = magnitude(*only_dim_);
    if (*only_dim_ < 0 ? distance > rank_ : distance >= rank_) {
      return base::make_error(Errc::slice_rank, "dimension " + std::to_string(*only_dim_) +
                                                    " is out of range for a tensor of " + std::to_string(rank_) +
                                                    (rank_ == 1 ? " dimension" : " dimensions"));
    }
    dim_ = static_cast<std::size_t>(*only_dim_ < 0 ? rank_ - distance : distance);
    return {};
  }

  const DimSlice* find(std::size_t dim) const {
    if (only_dim_) return dim == dim_ ? &dims_.front() : nullptr;
    if (dim < before_) return &dims_[dim];
    if (rank_ - dim <= after_) return &dims_[dims_.size() - (rank_ - dim)];
    return nullptr;
  }

  const std::vector<DimSlice>& dims_;
  std::optional<std::int64_t> only_dim_;
  std::size_t rank_;
  std::size_t dim_ = 0;
  std::size_t before_ = 0;  // elements before the ellipsis, for the first dimensions
  std::size_t after_ = 0;   // and after it, for the last
  std::size_t ellipsis_ = 0;
  bool has_ellipsis_ = false;
};

// Bits of the whole tensor, by the rule that the header's check follows: a zero only helps what stands before it.
Result<std::uint64_t> total_bits(Dtype dtype, ShapeView shape) {
  if (!parse_dtype(to_string(dtype))) {
    return base::make_error(Errc::invalid_argument,
                            "no dtype has the number " + std::to_string(static_cast<unsigned>(dtype)));
  }
  std::uint64_t total = 1;
  bool fits = true;
  for (const std::uint64_t size : shape) fits = fits && base::multiply(total, size, total);
  if (!fits || !base::multiply(total, bits(dtype), total)) {
    return base::make_error(Errc::size_overflow, std::string(to_string(dtype)) + " of shape " + to_string(shape) +
                                                     " has more than 2^64-1 bits");
  }
  return total;
}

// Every dtype has a whole number of bit pairs, and in pairs a stride of the largest tensor fits with its sign.
constexpr unsigned kBitsPerPair = 2;
constexpr unsigned kPairsPerByte = 4;

// A slice as loops around runs of bit pairs, built from the innermost dimension outwards.
struct PairLoops {
  std::uint64_t first = 0;
  std::uint64_t run = 0;
  std::vector<Loop> loops = {};  // innermost first; strides in bit pairs, two's complement

  // stride: bit pairs from one element of the dimension to the next.
  void wrap(const Pick& pick, std::uint64_t stride) {
    first += pick.start * stride;
    if (pick.count == 1) return;
    const std::uint64_t step = pick.step * stride;
    if (loops.empty() && step == run) {
      run *= pick.count;
    } else if (!loops.empty() && step == static_cast<std::uint64_t>(loops.back().stride) * loops.back().count) {
      loops.back().count *= pick.count;
    } else {
      loops.push_back({.count = pick.count, .stride = static_cast<std::int64_t>(step)});
    }
  }
};

// Every run must begin and end on a byte. The first run is never a joined one, so all pieces must.
Status to_bytes(Dtype dtype, PairLoops& found) {
  const auto refuse = [&](const std::string& what) {
    return base::make_error(Errc::slice_bits,
                            "a slice of " + std::string(to_string(dtype)) + " must fall on byte boundaries: " + what);
  };
  if (found.first % kPairsPerByte != 0) {
    return refuse("it starts at bit " + std::to_string(found.first * kBitsPerPair));
  }
  if (found.run % kPairsPerByte != 0) {
    return refuse("its runs are " + std::to_string(found.run * kBitsPerPair) + " bits long");
  }
  for (Loop& loop : found.loops) {
    if (loop.stride % std::int64_t{kPairsPerByte} != 0) {
      return refuse("its runs are " + std::to_string(magnitude(loop.stride) * kBitsPerPair) + " bits apart");
    }
    loop.stride /= std::int64_t{kPairsPerByte};
  }
  found.first /= kPairsPerByte;
  found.run /= kPairsPerByte;
  return {};
}

// Fills in the jumps and returns the number of runs. loops: outermost first, bytes.
std::uint64_t join(std::vector<Loop>& loops, std::uint64_t run) {
  std::int64_t inner_extent = 0;
  for (std::size_t i = loops.size(); i-- > 0;) {
    loops[i].jump = loops[i].stride - inner_extent;
    inner_extent += static_cast<std::int64_t>(loops[i].count - 1) * loops[i].stride;
  }
  std::uint64_t rounds = 1;
  std::uint64_t joined = 0;
  for (const Loop& loop : loops) {
    if (loop.jump == static_cast<std::int64_t>(run)) joined += rounds * (loop.count - 1);
    rounds *= loop.count;
  }
  return rounds - joined;
}

}  // namespace
}  // namespace format

inline namespace v0 {

Result<ResolvedSlice> detail::SliceAccess::resolve(const Slice& slice, Dtype dtype, ShapeView shape) {
  const Result<std::uint64_t> total = format::total_bits(dtype, shape);
  if (!total) return total.error();
  format::Request request(slice.dims_, slice.only_dim_, shape.size());
  if (Status status = request.check(); !status) return std::move(status).error();

  std::vector<std::uint64_t> dims;
  std::uint64_t count = *total == 0 ? 0 : 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Result<format::Pick> pick = request.pick(i, shape[i]);
    if (!pick) return pick.error();
    if (pick->keeps_dimension) dims.push_back(pick->count);
    count *= pick->count;
  }
  ResolvedSlice resolved;
  resolved.shape_ = Shape(dims);
  if (count == 0) return resolved;

  const std::uint64_t element = bits(dtype) / format::kBitsPerPair;
  format::PairLoops found{.run = element};
  std::uint64_t stride = element;
  for (std::size_t i = shape.size(); i-- > 0;) {
    found.wrap(*request.pick(i, shape[i]), stride);
    stride *= shape[i];
  }
  if (Status status = format::to_bytes(dtype, found); !status) return std::move(status).error();
  std::reverse(found.loops.begin(), found.loops.end());
  resolved.run_count_ = format::join(found.loops, found.run);
  resolved.first_ = found.first;
  resolved.run_ = found.run;
  resolved.nbytes_ = found.run;
  for (const Loop& loop : found.loops) resolved.nbytes_ *= loop.count;
  resolved.loops_ = std::move(found.loops);
  return resolved;
}

Result<ResolvedSlice> Slice::resolve(Dtype dtype, ShapeView shape) const noexcept {
  return base::guarded([&] { return detail::SliceAccess::resolve(*this, dtype, shape); });
}

}  // namespace v0
}  // namespace safetensors
