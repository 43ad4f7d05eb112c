// Any slice of any shape. For small shapes, the result equals that of a naive loop. For huge shapes, all runs are
// inside the tensor.
#include <safetensors/slice.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "count_bytes.h"
#include "format/slice/slice.h"
#include "input.h"
#include "require.h"
#include "support/naive_slice.h"

namespace {

using fuzz::Input;
using fuzz::require;
using safetensors::DimSlice;
using safetensors::Dtype;
using safetensors::Errc;
using safetensors::ResolvedSlice;
using safetensors::Slice;
using safetensors::format::ByteRun;
using safetensors::format::Runs;

constexpr std::int64_t kFar = 1000;  // larger than any small dimension

std::int64_t number(Input& in) {
  const std::uint8_t kind = in.byte();
  if (kind < 240) return static_cast<std::int64_t>(kind % 25) - 12;
  if (kind < 244) return std::numeric_limits<std::int64_t>::max() - static_cast<std::int64_t>(kind % 4);
  if (kind < 248) return std::numeric_limits<std::int64_t>::min() + static_cast<std::int64_t>(kind % 4);
  return static_cast<std::int64_t>(in.u64());
}

DimSlice dim_slice(Input& in) {
  switch (in.up_to(7)) {
    case 0:
      return DimSlice::all();
    case 1:
      return DimSlice::at(number(in));
    case 2:
      return DimSlice::ellipsis();
    default: {
      DimSlice dim = DimSlice::range(std::nullopt, std::nullopt);
      const std::uint64_t given = in.up_to(7);
      if ((given & 1) != 0) dim.begin = number(in);
      if ((given & 2) != 0) dim.end = number(in);
      if ((given & 4) != 0) dim.step = number(in);
      return dim;
    }
  }
}

// The same slice for a small shape, with numbers small enough for a naive loop.
std::vector<DimSlice> nearer(std::vector<DimSlice> dims) {
  const auto clamp = [](std::int64_t n) { return std::clamp(n, -kFar, kFar); };
  for (DimSlice& dim : dims) {
    dim.index = clamp(dim.index);
    dim.step = clamp(dim.step);
    if (dim.begin) dim.begin = clamp(*dim.begin);
    if (dim.end) dim.end = clamp(*dim.end);
  }
  return dims;
}

void check_runs(const ResolvedSlice& slice, std::uint64_t nbytes) {
  constexpr std::uint64_t kMost = 1000;  // number of runs to check
  Runs runs(slice);
  std::uint64_t total = 0;
  ByteRun before, run;
  for (std::uint64_t i = 0; i < std::min(kMost, slice.run_count()); ++i) {
    require(runs.next(run), "as many runs as it says");
    require(run.size > 0 && run.offset <= nbytes && run.size <= nbytes - run.offset, "a run inside the tensor");
    require(i == 0 || before.offset + before.size != run.offset, "neighbours are joined");
    before = run;
    total += run.size;
  }
  if (slice.run_count() > kMost) return;
  require(!runs.next(run), "no more runs than it says");
  require(total == slice.nbytes(), "the runs add up");
}

void check_naive(const std::vector<DimSlice>& dims, Dtype dtype, const std::vector<std::uint64_t>& shape,
                 const safetensors::Result<ResolvedSlice>& slice) {
  const auto naive = safetensors::test::naive_slice(nearer(dims), dtype, shape);
  require((naive.error == Errc::ok) == slice.ok(), "the naive verdict");
  if (!slice) return require(slice.error().code == naive.error, "the naive error");
  require(std::equal(slice->shape().begin(), slice->shape().end(), naive.shape.begin(), naive.shape.end()),
          "the naive shape");
  std::vector<ByteRun> got;
  ByteRun run;
  for (Runs runs(*slice); runs.next(run);) got.push_back(run);
  require(got == naive.runs, "the naive runs");
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  Input in(data, size);
  const auto dtypes = safetensors::all_dtypes();
  const Dtype dtype = dtypes[in.up_to(static_cast<std::uint8_t>(dtypes.size() - 1))];
  const bool small = in.up_to(3) != 0;
  std::vector<std::uint64_t> shape(in.up_to(5));
  for (std::uint64_t& dim : shape) dim = small ? in.up_to(6) : in.u64() >> in.up_to(63);
  const auto counted = fuzz::count_bytes(dtype, shape);
  if (!counted) return 0;
  const std::uint64_t nbytes = *counted;

  std::vector<DimSlice> dims(in.up_to(6));
  for (DimSlice& dim : dims) dim = dim_slice(in);
  const auto slice = Slice(dims).resolve(dtype, shape);
  if (small) check_naive(dims, dtype, shape, slice);
  if (slice) check_runs(*slice, nbytes);

  const std::uint64_t world = in.up_to(9);
  const std::int64_t along = static_cast<std::int64_t>(in.up_to(8)) - 4;
  const auto part = Slice::shard(along, in.up_to(9), world).resolve(dtype, shape);
  if (part) check_runs(*part, nbytes);

  // Any text: parsing ends with a slice or an error, and so does resolving the slice.
  if (const auto parsed = Slice::parse(in.rest())) {
    if (const auto resolved = parsed->resolve(dtype, shape)) check_runs(*resolved, nbytes);
  } else {
    require(parsed.error().code == Errc::slice_syntax && !parsed.error().message.empty(), "an error that says why");
  }
  return 0;
}
