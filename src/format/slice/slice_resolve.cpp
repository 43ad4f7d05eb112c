// Resolves a Slice for a dtype and a shape into loops around pieces of bytes.
//
// Dimensions are processed from the innermost outwards. A dimension that continues the loop inside of it with the same
// stride is merged into that loop. So a slice has as few loops, and its pieces are as large, as possible, and the
// reader makes few large reads. The arithmetic uses pairs of bits, because F4 and F6 elements are smaller than a byte.
#include <safetensors/shape.h>
#include <safetensors/slice.h>

#include <algorithm>
#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "format/slice/slice.h"

namespace safetensors {
namespace format {
namespace {

using base::magnitude;
using Loop = detail::Access<ResolvedSlice>::Loop;

// The elements selected from one dimension: `count` of them, at start, start + step, and so on. A negative step is
// stored in two's complement. Sums and products with it are correct modulo 2^64, and every true offset is below 2^64.
struct Pick {
  std::uint64_t start = 0;
  std::uint64_t count = 0;
  std::uint64_t step = 1;
  bool keeps_dimension = true;
};

std::string dimension_text(std::size_t dim, std::uint64_t size) {
  return base::concat({"dimension ", dim, " of size ", size});
}

// Clamps a bound of a forward range to 0..size.
std::uint64_t clamp_forward(std::int64_t bound, std::uint64_t size) {
  if (bound >= 0) return std::min(magnitude(bound), size);
  return magnitude(bound) > size ? 0 : size - magnitude(bound);
}

// Clamps a bound of a backward range to -1..size-1 and adds 1, so that the result is never negative.
std::uint64_t clamp_backward(std::int64_t bound, std::uint64_t size) {
  if (bound >= 0) return magnitude(bound) >= size ? size : magnitude(bound) + 1;
  return magnitude(bound) > size ? 0 : size - magnitude(bound) + 1;
}

Result<Pick> pick_index(std::int64_t index, std::size_t dim, std::uint64_t size) {
  const bool inside = index < 0 ? magnitude(index) <= size : magnitude(index) < size;
  if (!inside) {
    return base::make_error(Errc::slice_index, {"index ", index, " is out of range for ", dimension_text(dim, size)});
  }
  const std::uint64_t start = index < 0 ? size - magnitude(index) : magnitude(index);
  return Pick{.start = start, .count = 1, .keeps_dimension = false};
}

Result<Pick> pick_range(const DimSlice& range, std::size_t dim, std::uint64_t size) {
  if (range.step == 0)
    return base::make_error(Errc::slice_step, {"step 0 for ", dimension_text(dim, size), ": want 1, -1 or more"});
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
    return base::make_error(Errc::slice_index, {"shard ", shard.rank, " of ", shard.world, " of ",
                                                dimension_text(dim, size), ": shards count from 0 to below the world"});
  }
  // The first size % world shards have one element more than the others.
  const std::uint64_t quotient = size / shard.world;
  const std::uint64_t remainder = size % shard.world;
  return Pick{.start = shard.rank * quotient + std::min(shard.rank, remainder),
              .count = quotient + (shard.rank < remainder ? 1 : 0)};
}

// Maps the dimensions of a tensor to the elements of a Slice, for all forms of slices: with an ellipsis, with fewer
// elements than dimensions, or for one dimension only.
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
        return base::make_error(Errc::slice_rank,
                                {"more than one ellipsis: element ", ellipsis_, " and element ", i, " of the slice"});
      } else {
        has_ellipsis_ = true;
        ellipsis_ = i;
      }
    }
    if (named > rank_) {
      return base::make_error(Errc::slice_rank, {"too many indices: the slice has ", named, ", the tensor has ", rank_,
                                                 (rank_ == 1 ? " dimension" : " dimensions")});
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
      return base::make_error(Errc::slice_rank, {"dimension ", *only_dim_, " is out of range for a tensor of ", rank_,
                                                 (rank_ == 1 ? " dimension" : " dimensions")});
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
  std::size_t after_ = 0;   // elements after the ellipsis, for the last dimensions
  std::size_t ellipsis_ = 0;
  bool has_ellipsis_ = false;
};

// Returns the number of bits of the whole tensor. Multiplies in the same order as the header's check, so both refuse
// the same shapes: a dimension of size 0 does not help if the product of the dimensions before it overflows.
Result<std::uint64_t> total_bits(Dtype dtype, ShapeView shape) {
  if (dtype == Dtype::UNKNOWN) {
    return base::make_error(Errc::dtype_mismatch,
                            "cannot slice a tensor of unknown dtype: the size of its elements is unknown (read all of "
                            "its bytes)");
  }
  if (!parse_dtype(to_string(dtype))) {
    return base::make_error(Errc::invalid_argument, {"unknown dtype ", static_cast<unsigned>(dtype)});
  }
  std::uint64_t total = 1;
  bool fits = true;
  for (const std::uint64_t size : shape) fits = fits && base::multiply(total, size, total);
  if (!fits || !base::multiply(total, bits(dtype), total)) {
    return base::make_error(Errc::size_overflow,
                            {to_string(dtype), " of shape ", to_string(shape), " has more than 2^64-1 bits"});
  }
  return total;
}

// The unit of sizes and strides is a pair of bits. Every dtype has a whole number of pairs. A tensor has less than 2^64
// bits, so its strides are less than 2^63 pairs and fit into 64 bits with their sign.
constexpr unsigned kBitsPerPair = 2;
constexpr unsigned kPairsPerByte = 4;

// Loops around pieces, built from the innermost dimension outwards. All numbers are in bit pairs.
struct PairLoops {
  std::uint64_t first = 0;       // offset of the first piece
  std::uint64_t piece = 0;       // size of a piece
  std::vector<Loop> loops = {};  // innermost first; strides in bit pairs, two's complement

  // Adds a loop for a dimension. stride: bit pairs from one element of the dimension to the next. A contiguous
  // dimension enlarges the piece. A dimension that continues the last loop extends it.
  void wrap(const Pick& pick, std::uint64_t stride) {
    first += pick.start * stride;
    if (pick.count == 1) return;
    const std::uint64_t step = pick.step * stride;
    if (loops.empty() && step == piece) {
      piece *= pick.count;
    } else if (!loops.empty() && step == static_cast<std::uint64_t>(loops.back().stride) * loops.back().count) {
      loops.back().count *= pick.count;
    } else {
      loops.push_back({.count = pick.count, .stride = static_cast<std::int64_t>(step)});
    }
  }
};

// Converts bit pairs to bytes. Every piece must begin and end at a byte boundary. Checking pieces
// refuses nothing that is valid: the first run is exactly one piece, so a piece that is cut is a run that is cut.
Status to_bytes(Dtype dtype, PairLoops& found) {
  const auto refuse = [&](const std::string& what) {
    return base::make_error(Errc::slice_bits,
                            {"a slice of ", to_string(dtype), " must fall on byte boundaries: ", what});
  };
  if (found.first % kPairsPerByte != 0) {
    return refuse(base::concat({"it starts at bit ", found.first * kBitsPerPair}));
  }
  if (found.piece % kPairsPerByte != 0) {
    return refuse(base::concat({"its runs are ", found.piece * kBitsPerPair, " bits long"}));
  }
  for (Loop& loop : found.loops) {
    if (loop.stride % std::int64_t{kPairsPerByte} != 0) {
      return refuse(base::concat({"its runs are ", magnitude(loop.stride) * kBitsPerPair, " bits apart"}));
    }
    loop.stride /= std::int64_t{kPairsPerByte};
  }
  found.first /= kPairsPerByte;
  found.piece /= kPairsPerByte;
  return {};
}

// Sets the jumps and returns the number of runs. loops: outermost first, in bytes. piece: bytes per piece. A jump of
// one piece means that the pieces before and after it touch and are one run.
std::uint64_t join(std::vector<Loop>& loops, std::uint64_t piece) {
  std::int64_t inner_span = 0;  // from the first piece to the last one of all inner loops
  for (std::size_t i = loops.size(); i-- > 0;) {
    loops[i].jump = loops[i].stride - inner_span;
    inner_span += static_cast<std::int64_t>(loops[i].count - 1) * loops[i].stride;
  }
  std::uint64_t rounds = 1;
  std::uint64_t joined = 0;
  for (const Loop& loop : loops) {
    if (loop.jump == static_cast<std::int64_t>(piece)) joined += rounds * (loop.count - 1);
    rounds *= loop.count;
  }
  return rounds - joined;
}

}  // namespace
}  // namespace format

inline namespace v0 {

Result<ResolvedSlice> detail::Access<ResolvedSlice>::resolve(const Slice& slice, Dtype dtype, ShapeView shape) {
  if (const auto& error = Access<Slice>::syntax_error(slice)) return *error;
  const Result<std::uint64_t> total = format::total_bits(dtype, shape);
  if (!total) return total.error();
  format::Request request(Access<Slice>::dims(slice), Access<Slice>::only_dim(slice), shape.size());
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

  // No check for overflow is needed from here on: count is not 0, so every product is at most the bits of the tensor.
  const std::uint64_t element = bits(dtype) / format::kBitsPerPair;
  format::PairLoops found{.piece = element};
  std::uint64_t stride = element;
  for (std::size_t i = shape.size(); i-- > 0;) {
    found.wrap(*request.pick(i, shape[i]), stride);
    stride *= shape[i];
  }
  if (Status status = format::to_bytes(dtype, found); !status) return std::move(status).error();
  std::reverse(found.loops.begin(), found.loops.end());
  resolved.run_count_ = format::join(found.loops, found.piece);
  resolved.first_ = found.first;
  resolved.run_ = found.piece;
  resolved.nbytes_ = found.piece;
  for (const Loop& loop : found.loops) resolved.nbytes_ *= loop.count;
  resolved.loops_ = std::move(found.loops);
  return resolved;
}

Result<ResolvedSlice> Slice::resolve(Dtype dtype, ShapeView shape) const noexcept {
  return base::guarded([&] { return detail::Access<ResolvedSlice>::resolve(*this, dtype, shape); });
}

}  // namespace v0
}  // namespace safetensors
