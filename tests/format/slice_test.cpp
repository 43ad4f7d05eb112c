#include <safetensors/slice.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "format/slice/slice.h"
#include "support/naive_slice.h"

namespace safetensors {
namespace {

using format::ByteRun;
using test::naive_slice;
using test::NaiveSlice;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

std::vector<ByteRun> all_runs(const ResolvedSlice& slice) {
  std::vector<ByteRun> runs;
  ByteRun run;
  for (format::Runs walk(slice); walk.next(run);) runs.push_back(run);
  return runs;
}

std::vector<std::uint64_t> bytes_by_rows(const ResolvedSlice& slice) {
  std::vector<std::uint64_t> bytes;
  format::PieceRow row;
  for (format::PieceRows rows(slice); rows.next(row);)
    for (std::uint64_t i = 0; i < row.count; ++i)
      for (std::uint64_t b = 0; b < row.size; ++b)
        bytes.push_back(row.offset + i * static_cast<std::uint64_t>(row.stride) + b);
  return bytes;
}

std::vector<std::uint64_t> bytes_by_runs(const std::vector<ByteRun>& runs) {
  std::vector<std::uint64_t> bytes;
  for (const ByteRun& run : runs)
    for (std::uint64_t b = 0; b < run.size; ++b) bytes.push_back(run.offset + b);
  return bytes;
}

std::string show(const std::vector<DimSlice>& dims) {
  std::string text;
  for (const DimSlice& dim : dims) {
    if (!text.empty()) text += ",";
    switch (dim.kind) {
      case DimSlice::Kind::all:
        text += ":";
        break;
      case DimSlice::Kind::ellipsis:
        text += "...";
        break;
      case DimSlice::Kind::index:
        text += std::to_string(dim.index);
        break;
      case DimSlice::Kind::shard:
        text += std::to_string(dim.rank) + "/" + std::to_string(dim.world);
        break;
      case DimSlice::Kind::range:
        text += (dim.begin ? std::to_string(*dim.begin) : "") + ":" + (dim.end ? std::to_string(*dim.end) : "") + ":" +
                std::to_string(dim.step);
    }
  }
  return text;
}

// True when resolve() and the naive loop agree in everything; says where they do not.
bool agrees(const std::vector<DimSlice>& dims, Dtype dtype, const std::vector<std::uint64_t>& shape) {
  const NaiveSlice naive = naive_slice(dims, dtype, shape);
  const Result<ResolvedSlice> resolved = Slice(dims).resolve(dtype, shape);
  const std::string what = std::string(to_string(dtype)) + to_string(ShapeView(shape)) + "[" + show(dims) + "]";
  if (!resolved) {
    EXPECT_EQ(resolved.error().code, naive.error) << what << ": " << resolved.error().message;
    return resolved.error().code == naive.error;
  }
  EXPECT_EQ(naive.error, Errc::ok) << what;
  const std::vector<ByteRun> runs = all_runs(*resolved);
  std::uint64_t total = 0;
  for (const ByteRun& run : runs) total += run.size;
  const bool same = naive.error == Errc::ok && resolved->shape() == Shape(naive.shape) && runs == naive.runs &&
                    resolved->run_count() == runs.size() && resolved->nbytes() == total &&
                    resolved->contiguous() == (runs.size() <= 1) &&
                    (total > 4096 || bytes_by_rows(*resolved) == bytes_by_runs(runs));
  EXPECT_TRUE(same) << what << ": " << runs.size() << " runs, " << resolved->run_count() << " announced, "
                    << naive.runs.size() << " expected";
  return same;
}

// Everything that can be asked of one dimension with bounds from -6 to 6.
std::vector<DimSlice> every_request() {
  std::vector<DimSlice> requests = {DimSlice::all()};
  std::vector<std::optional<std::int64_t>> bounds = {std::nullopt};
  for (std::int64_t i = -6; i <= 6; ++i) {
    requests.push_back(DimSlice::at(i));
    bounds.emplace_back(i);
  }
  for (const auto& begin : bounds)
    for (const auto& end : bounds)
      for (std::int64_t step = -3; step <= 3; ++step) requests.push_back(DimSlice::range(begin, end, step));
  return requests;
}

// One request for each different outcome on a dimension of this size: what is taken, or the error.
std::vector<DimSlice> distinct_requests(std::uint64_t size) {
  std::vector<DimSlice> distinct;
  std::vector<std::pair<Errc, std::vector<std::int64_t>>> seen;
  for (const DimSlice& request : every_request()) {
    std::vector<std::int64_t> taken;
    const Errc error = test::naive_pick(request, static_cast<std::int64_t>(size), taken);
    if (request.kind == DimSlice::Kind::index) taken.push_back(-1);
    std::pair<Errc, std::vector<std::int64_t>> outcome(error, taken);
    if (std::find(seen.begin(), seen.end(), outcome) != seen.end()) continue;
    seen.push_back(std::move(outcome));
    distinct.push_back(request);
  }
  return distinct;
}

TEST(Slice, MatchesNaiveLoopOnVectors) {
  const std::vector<DimSlice> requests = every_request();
  for (std::uint64_t size = 0; size <= 4; ++size)
    for (const DimSlice& request : requests) ASSERT_TRUE(agrees({request}, Dtype::I16, {size}));
}

class SliceOutcomes : public ::testing::Test {
 protected:
  SliceOutcomes() {
    for (const std::uint64_t size : {0U, 1U, 2U, 3U, 4U, 8U, 12U}) of_[size] = distinct_requests(size);
  }
  std::map<std::uint64_t, std::vector<DimSlice>> of_;
};

TEST_F(SliceOutcomes, MatchNaiveLoopOnMatrices) {
  const std::vector<DimSlice> requests = every_request();
  std::minstd_rand random(1);
  for (std::uint64_t rows = 0; rows <= 4; ++rows) {
    for (std::uint64_t columns = 0; columns <= 4; ++columns) {
      for (const DimSlice& row : of_[rows])
        for (const DimSlice& column : of_[columns]) ASSERT_TRUE(agrees({row, column}, Dtype::U8, {rows, columns}));
      // The other ways to write them, of one side and then of the other.
      for (const DimSlice& request : requests) {
        const DimSlice& row = of_[rows][random() % of_[rows].size()];
        const DimSlice& column = of_[columns][random() % of_[columns].size()];
        ASSERT_TRUE(agrees({request, column}, Dtype::U8, {rows, columns}));
        ASSERT_TRUE(agrees({row, request}, Dtype::U8, {rows, columns}));
      }
    }
  }
}

TEST_F(SliceOutcomes, MatchNaiveLoopOnCubes) {
  // Every combination of outcomes where no side is over 2, a fixed sample of the others.
  std::minstd_rand random(1);
  const auto check = [&](const std::vector<std::uint64_t>& shape) {
    const bool small = *std::max_element(shape.begin(), shape.end()) <= 2;
    for (const DimSlice& x : of_[shape[0]])
      for (const DimSlice& y : of_[shape[1]])
        for (const DimSlice& z : of_[shape[2]])
          if ((small || random() % 16 == 0) && !agrees({x, y, z}, Dtype::U8, shape)) return false;
    return true;
  };
  for (std::uint64_t a = 0; a <= 4; ++a)
    for (std::uint64_t b = 0; b <= 4; ++b)
      for (std::uint64_t c = 0; c <= 4; ++c) ASSERT_TRUE(check({a, b, c}));
}

TEST_F(SliceOutcomes, MatchNaiveLoopOnEveryDtype) {
  std::minstd_rand random(2);
  const auto check = [&](Dtype dtype, const std::vector<std::uint64_t>& shape) {
    for (const DimSlice& x : of_[shape[0]])
      for (const DimSlice& y : of_[shape[1]])
        if ((bits(dtype) < 8 || random() % 16 == 0) && !agrees({x, y}, dtype, shape)) return false;
    return true;
  };
  for (const Dtype dtype : all_dtypes())
    for (const std::uint64_t rows : {1U, 2U, 3U, 4U})
      for (const std::uint64_t columns : {4U, 8U, 12U}) ASSERT_TRUE(check(dtype, {rows, columns}));
}

TEST(Slice, MatchesNaiveLoopOnRandomSlices) {
  std::minstd_rand random(3);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 20000; ++round) {
    const auto rank = static_cast<std::size_t>(below(8));
    std::vector<std::uint64_t> shape(rank);
    for (std::uint64_t& size : shape) size = static_cast<std::uint64_t>(below(12) == 0 ? 0 : 1 + below(4));
    std::vector<DimSlice> dims;
    const std::int64_t named = below(static_cast<unsigned>(rank) + 2);
    for (std::int64_t i = 0; i < named; ++i) {
      switch (below(6)) {
        case 0:
          dims.push_back(DimSlice::at(below(6) - 3));
          break;
        case 1:
          dims.push_back(DimSlice::shard(static_cast<std::uint64_t>(below(3)), 2));
          break;
        case 2:
          dims.push_back(below(3) == 0 ? DimSlice::ellipsis() : DimSlice::all());
          break;
        case 3:
          dims.push_back(DimSlice::range(std::nullopt, std::nullopt, -1));
          break;
        default:
          dims.push_back(DimSlice::range(below(8) - 4, below(8) - 4, below(5) - 2));
      }
    }
    constexpr std::array<Dtype, 4> kDtypes = {Dtype::U8, Dtype::F4, Dtype::F6_E2M3, Dtype::F32};
    ASSERT_TRUE(agrees(dims, kDtypes[static_cast<std::size_t>(below(4))], shape));
  }
}

TEST(Slice, ShardsLikeArraySplit) {
  for (std::uint64_t size = 0; size <= 12; ++size) {
    for (std::uint64_t world = 1; world <= 12; ++world) {
      for (std::uint64_t rank = 0; rank < world; ++rank) {
        for (const std::int64_t dim : {1, -2}) {
          const Result<ResolvedSlice> part = Slice::shard(dim, rank, world).resolve(Dtype::U8, Shape{2, size, 3});
          ASSERT_TRUE(part);
          const NaiveSlice naive =
              naive_slice({DimSlice::all(), DimSlice::shard(rank, world)}, Dtype::U8, {2, size, 3});
          EXPECT_EQ(part->shape(), Shape(naive.shape));
          EXPECT_EQ(all_runs(*part), naive.runs);
          EXPECT_EQ(part->shape().data()[1], size / world + (rank < size % world ? 1 : 0));
        }
      }
    }
  }
}

TEST(Slice, RefusesInvalidShards) {
  const auto error = [](const Slice& slice) { return slice.resolve(Dtype::U8, Shape{2, 5}).error(); };
  EXPECT_EQ(error(Slice::shard(1, 2, 2)).code, Errc::slice_index);
  EXPECT_EQ(error(Slice::shard(1, 2, 2)).message,
            "shard 2 of 2 of dimension 1 of size 5: shards count from 0 to below the world");
  EXPECT_EQ(error(Slice::shard(1, 0, 0)).code, Errc::slice_index);
  EXPECT_EQ(error(Slice::shard(2, 0, 1)).code, Errc::slice_rank);
  EXPECT_EQ(error(Slice::shard(2, 0, 1)).message, "dimension 2 is out of range for a tensor of 2 dimensions");
  EXPECT_EQ(error(Slice::shard(-3, 0, 1)).message, "dimension -3 is out of range for a tensor of 2 dimensions");
  EXPECT_EQ(error(Slice::shard(kMin, 0, 1)).code, Errc::slice_rank);
  EXPECT_EQ(error(Slice::shard(kMax, 0, 1)).code, Errc::slice_rank);
  EXPECT_EQ(Slice::shard(0, 0, 1).resolve(Dtype::U8, Shape{}).error().code, Errc::slice_rank);
}

TEST(Slice, ShardsHugeDimensions) {
  const auto last = Slice::shard(0, kHuge - 1, kHuge).resolve(Dtype::U8, Shape{kHuge / 8});
  ASSERT_TRUE(last);
  EXPECT_EQ(last->nbytes(), 0U);
  const auto half = Slice::shard(0, 1, 2).resolve(Dtype::U8, Shape{kHuge / 8});
  ASSERT_TRUE(half);
  EXPECT_EQ(all_runs(*half), (std::vector<ByteRun>{{kHuge / 16 + 1, kHuge / 16}}));
}

TEST(Slice, ExplainsErrors) {
  const auto error = [](const Slice& slice) { return slice.resolve(Dtype::F32, Shape{4, 5}).error(); };
  const Error index = error({DimSlice::all(), DimSlice::at(7)});
  EXPECT_EQ(index.code, Errc::slice_index);
  EXPECT_EQ(index.message, "index 7 is out of range for dimension 1 of size 5");
  EXPECT_EQ(error({DimSlice::at(-5)}).message, "index -5 is out of range for dimension 0 of size 4");
  const Error step = error({DimSlice::range(0, 1, 0)});
  EXPECT_EQ(step.code, Errc::slice_step);
  EXPECT_EQ(step.message, "step 0 for dimension 0 of size 4: want 1, -1 or more");
  const Error rank = error({DimSlice::all(), DimSlice::all(), DimSlice::at(0)});
  EXPECT_EQ(rank.code, Errc::slice_rank);
  EXPECT_EQ(rank.message, "too many indices: the slice has 3, the tensor has 2 dimensions");
  const Error twice = error({DimSlice::ellipsis(), DimSlice::at(0), DimSlice::ellipsis()});
  EXPECT_EQ(twice.code, Errc::slice_rank);
  EXPECT_EQ(twice.message, "more than one ellipsis: element 0 and element 2 of the slice");
  const Error bound = Slice({DimSlice::at(0)}).resolve(Dtype::F32, Shape{}).error();
  EXPECT_EQ(bound.message, "too many indices: the slice has 1, the tensor has 0 dimensions");
}

TEST(Slice, RefusesBoundsInsideBytes) {
  const auto message = [](const Slice& slice, Dtype dtype, const Shape& shape) {
    const Error error = slice.resolve(dtype, shape).error();
    EXPECT_EQ(error.code, Errc::slice_bits);
    return error.message;
  };
  EXPECT_EQ(message({DimSlice::range(1, 3)}, Dtype::F4, {8}),
            "a slice of F4 must fall on byte boundaries: it starts at bit 4");
  EXPECT_EQ(message({DimSlice::range(0, 3)}, Dtype::F4, {8}),
            "a slice of F4 must fall on byte boundaries: its runs are 12 bits long");
  EXPECT_EQ(message({DimSlice::all(), DimSlice::range(0, 4)}, Dtype::F6_E3M2, {2, 6}),
            "a slice of F6_E3M2 must fall on byte boundaries: its runs are 36 bits apart");
  // Rows of half a byte that together fill bytes.
  EXPECT_TRUE(Slice({DimSlice::range(0, 2)}).resolve(Dtype::F4, Shape{4, 1}));
  EXPECT_TRUE(Slice().resolve(Dtype::F4, Shape{2, 3}));
}

TEST(Slice, ClampsExtremeBounds) {
  const auto runs = [](std::optional<std::int64_t> begin, std::optional<std::int64_t> end, std::int64_t step) {
    const Result<ResolvedSlice> slice = Slice({DimSlice::range(begin, end, step)}).resolve(Dtype::U8, Shape{4});
    EXPECT_TRUE(slice);
    return all_runs(*slice);
  };
  EXPECT_EQ(runs(kMin, kMax, 1), (std::vector<ByteRun>{{0, 4}}));
  EXPECT_EQ(runs(kMin, kMax, kMax), (std::vector<ByteRun>{{0, 1}}));
  EXPECT_EQ(runs(kMax, kMin, -1), (std::vector<ByteRun>{{3, 1}, {2, 1}, {1, 1}, {0, 1}}));
  EXPECT_EQ(runs(kMax, kMin, kMin), (std::vector<ByteRun>{{3, 1}}));
  EXPECT_EQ(runs(kMax, kMin, kMin + 1), (std::vector<ByteRun>{{3, 1}}));
  EXPECT_TRUE(runs(kMax, std::nullopt, 1).empty());
  EXPECT_TRUE(runs(std::nullopt, kMin, 1).empty());
  EXPECT_TRUE(runs(kMin, std::nullopt, -1).empty());
  const auto code = [](std::int64_t index) {
    return Slice({DimSlice::at(index)}).resolve(Dtype::U8, Shape{4}).error().code;
  };
  EXPECT_EQ(code(kMin), Errc::slice_index);
  EXPECT_EQ(code(kMax), Errc::slice_index);
}

TEST(Slice, ResolvesDimensionsOverInt64) {
  for (const Shape& shape : {Shape{kHuge, 0}, Shape{0, kHuge, kHuge}}) {
    for (const Slice& slice : {Slice(), Slice{DimSlice::range(std::nullopt, std::nullopt, -1)},
                               Slice{DimSlice::range(kMin, kMax, 7)}, Slice{DimSlice::ellipsis(), DimSlice::all()}}) {
      const Result<ResolvedSlice> resolved = slice.resolve(Dtype::F64, shape);
      ASSERT_TRUE(resolved) << resolved.error().message;
      EXPECT_EQ(resolved->nbytes(), 0U);
      EXPECT_EQ(resolved->run_count(), 0U);
      EXPECT_TRUE(resolved->contiguous());
      EXPECT_TRUE(all_runs(*resolved).empty());
    }
  }
  const auto last = Slice{DimSlice::at(-1)}.resolve(Dtype::F64, Shape{kHuge, 0});
  ASSERT_TRUE(last);
  EXPECT_EQ(last->shape(), Shape{0});
  const auto every = Slice{DimSlice::range(kMin, std::nullopt, kMax)}.resolve(Dtype::F64, Shape{kHuge, 0});
  ASSERT_TRUE(every);
  EXPECT_EQ(every->shape(), (Shape{2, 0}));  // 2^63-1 and 2^64-2
  const auto back = Slice{DimSlice::range(std::nullopt, std::nullopt, kMin)}.resolve(Dtype::F64, Shape{kHuge, 0});
  ASSERT_TRUE(back);
  EXPECT_EQ(back->shape(), (Shape{2, 0}));  // 2^64-2 and 2^63-2
}

TEST(Slice, ResolvesLargestCountableTensor) {
  const Shape shape{std::uint64_t{1} << 30, std::uint64_t{1} << 30};
  const Slice ends{DimSlice::range(-1, std::nullopt, -(std::int64_t{1} << 30) + 1), DimSlice::at(-1)};
  const Result<ResolvedSlice> resolved = ends.resolve(Dtype::U8, shape);
  ASSERT_TRUE(resolved);
  EXPECT_EQ(all_runs(*resolved), (std::vector<ByteRun>{{(std::uint64_t{1} << 60) - 1, 1}, {(1U << 30) - 1, 1}}));
  const auto columns = Slice{DimSlice::all(), DimSlice::at(3)}.resolve(Dtype::U8, shape);
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->run_count(), std::uint64_t{1} << 30);
}

TEST(Slice, ReversesRowsOverOneExbibyte) {
  constexpr std::uint64_t kRow = (std::uint64_t{1} << 59) + 8;  // two of them are over 2^63 bits
  const auto resolved = Slice{DimSlice::range(std::nullopt, std::nullopt, -2), DimSlice::range(0, 3, 2)}.resolve(
      Dtype::U8, Shape{3, kRow});
  ASSERT_TRUE(resolved) << resolved.error().message;
  EXPECT_EQ(all_runs(*resolved), (std::vector<ByteRun>{{2 * kRow, 1}, {2 * kRow + 2, 1}, {0, 1}, {2, 1}}));
}

TEST(Slice, RefusesShapesThatCannotBeCounted) {
  const Error error = Slice().resolve(Dtype::U8, Shape{kHuge, kHuge, 0}).error();
  EXPECT_EQ(error.code, Errc::size_overflow);
  EXPECT_EQ(error.message, "U8 of shape [18446744073709551615, 18446744073709551615, 0] has more than 2^64-1 bits");
  EXPECT_EQ(Slice().resolve(Dtype::U8, Shape{kHuge}).error().code, Errc::size_overflow);
  EXPECT_EQ(Slice().resolve(static_cast<Dtype>(99), Shape{2}).error().code, Errc::invalid_argument);
}

TEST(Slice, ResolvesManyDimensions) {
  std::vector<std::uint64_t> shape(40, 1);
  shape[0] = shape[20] = 3;
  shape[39] = 2;
  std::vector<DimSlice> dims(40);
  dims[20] = DimSlice::range(std::nullopt, std::nullopt, -2);
  EXPECT_TRUE(agrees(dims, Dtype::F32, shape));
  EXPECT_TRUE(agrees({DimSlice::at(1), DimSlice::ellipsis(), DimSlice::at(0)}, Dtype::F32, shape));
  const std::vector<std::uint64_t> ones(1'000'000, 1);
  const auto whole = Slice{DimSlice::at(0), DimSlice::ellipsis(), DimSlice::at(-1)}.resolve(Dtype::U8, ones);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->shape().rank(), 999'998U);
  EXPECT_EQ(all_runs(*whole), (std::vector<ByteRun>{{0, 1}}));
}

TEST(Slice, JoinsContiguousLoops) {
  // Every second row of [6, 4] seen as [3, 2, 4]: one loop of three runs, whatever the way it is written.
  const auto runs = [](const Slice& slice, const Shape& shape) {
    return slice.resolve(Dtype::U8, shape).value().run_count();
  };
  EXPECT_EQ(runs({DimSlice::all(), DimSlice::at(0)}, {3, 2, 4}), 3U);
  EXPECT_EQ(runs({DimSlice::all(), DimSlice::all(), DimSlice::at(0)}, {3, 2, 4}), 6U);
  EXPECT_EQ(runs({DimSlice::range(0, 2)}, {3, 2, 4}), 1U);
  // The last of a row and the first of the next lie side by side.
  const auto resolved =
      Slice{DimSlice::all(), DimSlice::range(std::nullopt, std::nullopt, 2)}.resolve(Dtype::U8, Shape{2, 3});
  EXPECT_EQ(all_runs(*resolved), (std::vector<ByteRun>{{0, 1}, {2, 2}, {5, 1}}));
  EXPECT_EQ(resolved->run_count(), 3U);
}

TEST(SliceText, ParsesLikeNumPy) {
  const auto parsed = [](std::string_view text) {
    const Result<Slice> slice = Slice::parse(text);
    EXPECT_TRUE(slice) << text << ": " << slice.error().message;
    return slice ? show(slice->dims()) : "";
  };
  EXPECT_EQ(parsed("1:3,:,-1,::2,..."), "1:3:1,::1,-1,::2,...");
  EXPECT_EQ(parsed("[1:3, :]"), "1:3:1,::1");
  EXPECT_EQ(parsed(" [ \t1 : -3 : -1\n, ] "), "1:-3:-1");
  EXPECT_EQ(parsed(""), "");
  EXPECT_EQ(parsed("[]"), "");
  EXPECT_EQ(parsed("..."), "...");
  EXPECT_EQ(parsed("::-1"), "::-1");
  EXPECT_EQ(parsed("::"), "::1");
  EXPECT_EQ(parsed("+5"), "5");
  EXPECT_EQ(parsed("-9223372036854775808:9223372036854775807"), "-9223372036854775808:9223372036854775807:1");
  EXPECT_EQ(parsed("::0"), "::0");  // refused when resolved
}

TEST(SliceText, NamesColumnOfError) {
  const auto message = [](std::string_view text) {
    const Result<Slice> slice = Slice::parse(text);
    EXPECT_FALSE(slice) << text;
    EXPECT_EQ(slice.error().code, Errc::slice_syntax);
    return slice.error().message;
  };
  EXPECT_EQ(message("1:x"), "invalid slice: unexpected `x` at column 3, want `,`");
  EXPECT_EQ(message("a"), "invalid slice: unexpected `a` at column 1, want a number, `:` or `...`");
  EXPECT_EQ(message(","), "invalid slice: unexpected `,` at column 1, want a number, `:` or `...`");
  EXPECT_EQ(message("1,,2"), "invalid slice: unexpected `,` at column 3, want a number, `:` or `...`");
  EXPECT_EQ(message("[1"), "invalid slice: unexpected the end at column 3, want `,` or `]`");
  EXPECT_EQ(message("1]"), "invalid slice: unexpected `]` at column 2, want `,`");
  EXPECT_EQ(message("[1]2"), "invalid slice: unexpected `2` at column 4, want nothing more");
  EXPECT_EQ(message("1 2"), "invalid slice: unexpected `2` at column 3, want `,`");
  EXPECT_EQ(message("1:2:3:4"), "invalid slice: unexpected `:` at column 6, want `,`");
  EXPECT_EQ(message("-"), "invalid slice: unexpected the end at column 2, want a digit");
  EXPECT_EQ(message(".."), "invalid slice: unexpected `.` at column 1, want a number, `:` or `...`");
  EXPECT_EQ(message("...,1,..."), "invalid slice: a second `...` at column 7, the first is at column 1");
  EXPECT_EQ(message("1,9223372036854775808"), "invalid slice: the number at column 3 does not fit into 64 bits");
  EXPECT_EQ(message("\x1b[31m"), "invalid slice: unexpected `\\u{1b}` at column 1, want a number, `:` or `...`");
  EXPECT_EQ(message(std::string_view("1\0", 2)), "invalid slice: unexpected `\\u{0}` at column 2, want `,`");
}

}  // namespace
}  // namespace safetensors
