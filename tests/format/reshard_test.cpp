// shard_box() and reshard() against models that know nothing but single elements.
#include <gtest/gtest.h>
#include <safetensors/reshard.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/io_support.h"

namespace safetensors::test {
namespace {

using Index = std::vector<std::uint64_t>;

// Calls visit(index) for each index of a shape, in order.
template <class Visit>
void each_index(ShapeView shape, Visit&& visit) {
  if (numel(shape) == 0) return;
  Index index(shape.size(), 0);
  for (;;) {
    visit(index);
    std::size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

Index sum(const Index& a, ShapeView b) {
  Index total = a;
  for (std::size_t i = 0; i < a.size(); ++i) total[i] += b[i];
  return total;
}

bool holds(const Box& box, const Index& index) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] < box.begin[i] || index[i] - box.begin[i] >= box.shape[i]) return false;
  }
  return true;
}

Box box_at(const Index& begin, const Index& shape) {
  return {Shape(ShapeView(begin)), Shape(ShapeView(shape))};
}

// Each element of each wanted box comes from the first saved box that has it, at the right place of both parts.
void expect_right(const Shape& shape, const std::vector<Box>& saved, const std::vector<Box>& wanted) {
  const Result<std::vector<Transfer>> transfers = reshard(shape, saved, wanted);
  ASSERT_TRUE(succeeds(transfers));
  std::map<std::pair<std::size_t, Index>, std::size_t> given;
  for (std::size_t i = 0; i < transfers->size(); ++i) {
    const Transfer& transfer = (*transfers)[i];
    ASSERT_EQ(transfer.in_source.shape, transfer.in_target.shape);
    if (i > 0) {
      const Transfer& before = (*transfers)[i - 1];
      EXPECT_LE(std::pair(before.target, before.source), std::pair(transfer.target, transfer.source));
    }
    each_index(transfer.in_source.shape, [&](const Index& index) {
      const Index from = sum(sum(index, transfer.in_source.begin), saved[transfer.source].begin);
      const Index to = sum(sum(index, transfer.in_target.begin), wanted[transfer.target].begin);
      ASSERT_EQ(from, to);
      ASSERT_TRUE(holds(saved[transfer.source], from));
      ASSERT_TRUE(given.emplace(std::pair(transfer.target, to), transfer.source).second) << "given twice";
    });
  }
  for (std::size_t target = 0; target < wanted.size(); ++target) {
    each_index(wanted[target].shape, [&](const Index& index) {
      const Index element = sum(index, wanted[target].begin);
      std::size_t first = 0;
      while (!holds(saved[first], element)) ++first;
      const auto found = given.find({target, element});
      ASSERT_NE(found, given.end());
      ASSERT_EQ(found->second, first);
      given.erase(found);
    });
  }
  EXPECT_TRUE(given.empty());
}

// torch's rule, one index after the other: mesh dimensions deal out lists of indices.
Index indices_of(std::uint64_t size, std::size_t dim, const Index& mesh, const Index& coordinate,
                 const std::vector<Placement>& placements) {
  Index mine(size);
  for (std::uint64_t i = 0; i < size; ++i) mine[i] = i;
  for (std::size_t m = 0; m < mesh.size(); ++m) {
    if (placements[m].kind != Placement::Kind::shard || placements[m].dim != dim) continue;
    std::vector<Index> chunks(mesh[m]);
    std::uint64_t per_chunk = 0;
    while (per_chunk * mesh[m] < mine.size()) ++per_chunk;
    for (std::size_t i = 0; i < mine.size(); ++i) chunks[i / per_chunk].push_back(mine[i]);
    mine = chunks[coordinate[m]];
  }
  return mine;
}

// The boxes of all processes of a mesh, in the order of their coordinates.
std::vector<Box> boxes_of(const Shape& shape, const Index& mesh, const std::vector<Placement>& placements) {
  std::vector<Box> boxes;
  each_index(mesh, [&](const Index& coordinate) {
    const Result<Box> box = shard_box(shape, mesh, coordinate, placements);
    ASSERT_TRUE(succeeds(box));
    for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
      const Index mine = indices_of(shape[dim], dim, mesh, coordinate, placements);
      ASSERT_EQ(box->shape[dim], mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(box->begin[dim] + i, mine[i]);
      ASSERT_LE(box->begin[dim] + box->shape[dim], shape[dim]);
    }
    boxes.push_back(*box);
  });
  return boxes;
}

class Random {
 public:
  std::uint64_t below(std::uint64_t end) { return generator_() % end; }
  Index shape(std::size_t rank, std::uint64_t max) {
    Index shape(rank);
    for (std::uint64_t& size : shape) size = below(max + 1);
    return shape;
  }
  Index mesh() {
    Index mesh(1 + below(3));
    for (std::uint64_t& size : mesh) size = 1 + below(4);
    return mesh;
  }
  std::vector<Placement> placements(std::size_t count, std::size_t rank) {
    std::vector<Placement> placements(count);
    for (Placement& placement : placements) {
      if (rank > 0 && below(3) > 0) placement = Placement::shard(below(rank));
    }
    return placements;
  }
  Box box(const Index& shape) {
    Index begin(shape.size()), size(shape.size());
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      begin[dim] = below(shape[dim] + 1);
      size[dim] = below(shape[dim] - begin[dim] + 1);
    }
    return box_at(begin, size);
  }

 private:
  std::mt19937_64 generator_{11};
};

TEST(ShardBox, CutsLikeTorch) {
  const auto box = [](std::uint64_t rank) {
    return shard_box(Index{10}, Index{4}, Index{rank}, std::vector{Placement::shard(0)}).value();
  };
  EXPECT_EQ(to_string(box(0)), "[0:3]");
  EXPECT_EQ(to_string(box(2)), "[6:9]");
  EXPECT_EQ(to_string(box(3)), "[9:10]");
  // 5 indices over 4 processes: chunks of 2, so the last process has none.
  const Box last = shard_box(Index{5, 7}, Index{4}, Index{3}, std::vector{Placement::shard(0)}).value();
  EXPECT_EQ(to_string(last), "[5:5, 0:7]");
  EXPECT_EQ(last.numel(), 0U);
}

TEST(ShardBox, CutsOneDimensionTwice) {
  const std::vector<Placement> both{Placement::shard(0), Placement::shard(0)};
  const auto box = [&](Index at) { return to_string(shard_box(Index{10}, Index{2, 2}, at, both).value()); };
  EXPECT_EQ(box({0, 0}), "[0:3]");
  EXPECT_EQ(box({0, 1}), "[3:5]");
  EXPECT_EQ(box({1, 0}), "[5:8]");
  EXPECT_EQ(box({1, 1}), "[8:10]");
}

TEST(ShardBox, TakesWholeTensorWithoutShards) {
  EXPECT_EQ(to_string(shard_box({}, Index{3}, Index{2}, std::vector{Placement::replicate()}).value()), "[]");
  EXPECT_EQ(to_string(shard_box(Index{2, 3}, {}, {}, {}).value()), "[0:2, 0:3]");
}

TEST(ShardBox, SurvivesLargestNumbers) {
  const std::uint64_t max = ~std::uint64_t{0};
  const std::vector<Placement> cut{Placement::shard(0)};
  EXPECT_EQ(shard_box(Index{max}, Index{2}, Index{1}, cut).value(), box_at({max / 2 + 1}, {max / 2}));
  EXPECT_EQ(shard_box(Index{max}, Index{max}, Index{max - 1}, cut).value(), box_at({max - 1}, {1}));
  EXPECT_EQ(shard_box(Index{max - 1}, Index{max}, Index{max - 1}, cut).value(), box_at({max - 1}, {0}));
  EXPECT_EQ(shard_box(Index{max}, Index{max - 1}, Index{max - 2}, cut).value(), box_at({max}, {0}));
}

TEST(ShardBox, RefusesInvalidArguments) {
  const std::vector<Placement> cut{Placement::shard(1)};
  const auto message = [](const Result<Box>& box) {
    EXPECT_EQ(error_of(box).code, Errc::invalid_argument);
    return error_of(box).message;
  };
  EXPECT_EQ(message(shard_box(Index{4}, Index{2}, Index{0}, cut)),
            "placement 0 cuts dimension 1, the tensor has 1 dimensions");
  EXPECT_EQ(message(shard_box(Index{4, 4}, Index{2}, Index{2}, cut)),
            "coordinate 2 is outside of dimension 0 of the mesh, which has 2 processes");
  EXPECT_EQ(message(shard_box(Index{4, 4}, Index{0}, Index{0}, cut)),
            "coordinate 0 is outside of dimension 0 of the mesh, which has 0 processes");
  EXPECT_EQ(message(shard_box(Index{4, 4}, Index{2, 2}, Index{0}, cut)),
            "a mesh of 2 dimensions has 1 coordinates and 1 placements");
}

TEST(Reshard, MovesRowsToColumns) {
  const std::vector<Box> saved{box_at({0, 0}, {2, 4}), box_at({2, 0}, {2, 4})};
  const std::vector<Box> wanted{box_at({0, 0}, {4, 3}), box_at({0, 3}, {4, 1})};
  const std::vector<Transfer> transfers = reshard(Index{4, 4}, saved, wanted).value();
  ASSERT_EQ(transfers.size(), 4U);
  EXPECT_EQ(transfers[1], (Transfer{1, 0, box_at({0, 0}, {2, 3}), box_at({2, 0}, {2, 3})}));
  EXPECT_EQ(transfers[2], (Transfer{0, 1, box_at({0, 3}, {2, 1}), box_at({0, 0}, {2, 1})}));
}

TEST(Reshard, MovesScalar) {
  EXPECT_EQ(reshard({}, std::vector<Box>{Box{}, Box{}}, std::vector<Box>{Box{}}).value(),
            (std::vector<Transfer>{{0, 0, Box{}, Box{}}}));
}

TEST(Reshard, NeedsNothingForEmptyBoxes) {
  EXPECT_TRUE(reshard(Index{0, 5}, {}, std::vector<Box>{box_at({0, 0}, {0, 5})}).value().empty());
  EXPECT_TRUE(reshard(Index{3}, {}, {}).value().empty());
}

TEST(Reshard, ReadsOneOfManyReplicas) {
  const std::vector<Box> saved(1000, box_at({0}, {8}));
  const std::vector<Transfer> transfers = reshard(Index{8}, saved, std::vector<Box>{box_at({2}, {3})}).value();
  EXPECT_EQ(transfers, (std::vector<Transfer>{{0, 0, box_at({2}, {3}), box_at({0}, {3})}}));
}

TEST(Reshard, AgreesWithElementsForMeshes) {
  Random random;
  for (int round = 0; round < 1500; ++round) {
    const Index dims = random.shape(random.below(4), 7);
    const Shape shape{ShapeView(dims)};
    const auto cut = [&] {
      const Index mesh = random.mesh();
      return boxes_of(shape, mesh, random.placements(mesh.size(), dims.size()));
    };
    const std::vector<Box> saved = cut();
    const std::vector<Box> wanted = cut();
    expect_right(shape, saved, wanted);
    // Boxes of meshes are disjoint or equal, so there is one transfer per pair at most.
    const std::vector<Transfer> transfers = reshard(shape, saved, wanted).value();
    for (std::size_t i = 1; i < transfers.size(); ++i)
      EXPECT_NE(std::pair(transfers[i - 1].target, transfers[i - 1].source),
                std::pair(transfers[i].target, transfers[i].source));
    if (HasFailure()) FAIL() << to_string(shape) << " in round " << round;
  }
}

TEST(Reshard, AgreesWithElementsForAnyBoxes) {
  Random random;
  for (int round = 0; round < 1500; ++round) {
    const Index dims = random.shape(1 + random.below(3), 6);
    std::vector<Box> saved(random.below(8));
    for (Box& box : saved) box = random.box(dims);
    saved.push_back(box_at(Index(dims.size(), 0), dims));
    std::swap(saved.back(), saved[random.below(saved.size())]);
    std::vector<Box> wanted(1 + random.below(4));
    for (Box& box : wanted) box = random.box(dims);
    expect_right(Shape(ShapeView(dims)), saved, wanted);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(Reshard, FindsMissingElements) {
  Random random;
  std::size_t missing = 0;
  for (int round = 0; round < 1000; ++round) {
    const Index dims = random.shape(2, 5);
    std::vector<Box> saved(random.below(5));
    for (Box& box : saved) box = random.box(dims);
    const std::vector<Box> wanted{random.box(dims)};
    std::uint64_t found = 0;
    each_index(wanted[0].shape, [&](const Index& index) {
      const Index element = sum(index, wanted[0].begin);
      found += std::any_of(saved.begin(), saved.end(), [&](const Box& box) { return holds(box, element); }) ? 1 : 0;
    });
    const Result<std::vector<Transfer>> transfers = reshard(dims, saved, wanted);
    EXPECT_EQ(transfers.ok(), found == wanted[0].numel());
    if (transfers) continue;
    ++missing;
    EXPECT_EQ(transfers.error().code, Errc::invalid_argument);
    EXPECT_EQ(transfers.error().message, "wanted box 0 " + to_string(wanted[0]) +
                                             " is not in the saved boxes: they have " + std::to_string(found) +
                                             " of its " + std::to_string(wanted[0].numel()) + " elements");
  }
  EXPECT_GT(missing, 100U);
}

TEST(Reshard, RefusesInvalidBoxes) {
  const std::vector<Box> good{box_at({0}, {4})};
  const auto message = [](const Result<std::vector<Transfer>>& transfers) {
    EXPECT_EQ(error_of(transfers).code, Errc::invalid_argument);
    return error_of(transfers).message;
  };
  EXPECT_EQ(message(reshard(Index{4}, std::vector{box_at({2}, {3})}, good)),
            "saved box 0 has 3 indices from 2 on in dimension 0, the tensor has 4");
  EXPECT_EQ(message(reshard(Index{4}, good, std::vector{good[0], box_at({~std::uint64_t{0}}, {1})})),
            "wanted box 1 has 1 indices from 18446744073709551615 on in dimension 0, the tensor has 4");
  EXPECT_EQ(message(reshard(Index{4, 4}, good, good)),
            "saved box 0 has 1 begins and 1 sizes, expected 2, the dimensions of the tensor");
  const std::uint64_t large = std::uint64_t{1} << 40;
  const Error error = error_of(reshard(Index{large, large}, {}, {}));
  EXPECT_EQ(error.code, Errc::size_overflow);
  EXPECT_EQ(error.message, "a tensor of shape [1099511627776, 1099511627776] has more than 2^64-1 elements");
  EXPECT_TRUE(succeeds(reshard(Index{large, 0, large}, {}, {})));
}

// The overlaps of strangers end early, before they take memory for all pairs.
TEST(Reshard, RefusesTooManyOverlaps) {
  std::vector<Box> saved;
  for (std::uint64_t i = 0; i < 1000; ++i) saved.push_back(box_at({i, i}, {1000, 1000}));
  const Error error = error_of(reshard(Index{2000, 2000}, saved, std::vector<Box>{box_at({0, 0}, {1, 1})}));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "too many of 1000 saved boxes overlap without being equal: more than 278144 pairs");
}

TEST(Reshard, CutsManyRangesThatOverlap) {
  constexpr std::uint64_t kCount = 5000;
  std::vector<Box> saved;
  for (std::uint64_t i = 0; i < kCount; ++i) saved.push_back(box_at({i}, {kCount}));
  const std::vector<Transfer> transfers =
      reshard(Index{2 * kCount}, saved, std::vector<Box>{box_at({0}, {2 * kCount - 1})}).value();
  ASSERT_EQ(transfers.size(), kCount);
  EXPECT_EQ(transfers[7], (Transfer{7, 0, box_at({kCount - 1}, {1}), box_at({kCount + 6}, {1})}));
}

TEST(Reshard, GivesSlicesOfBoxes) {
  const Slice slice = to_slice(box_at({1, 2}, {2, 3}));
  const ResolvedSlice resolved = slice.resolve(Dtype::U8, Shape{4, 5}).value();
  EXPECT_EQ(resolved.shape(), (Shape{2, 3}));
  EXPECT_EQ(to_slice(Box{}).resolve(Dtype::F32, {}).value().nbytes(), 4U);
}

}  // namespace
}  // namespace safetensors::test
