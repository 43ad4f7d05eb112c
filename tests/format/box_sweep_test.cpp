// BoxSweep against the comparison of all pairs, and the number of its steps.
#include "format/box_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

namespace safetensors::format {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Box box_of(std::vector<std::uint64_t> begin, std::vector<std::uint64_t> shape) {
  return {Shape(ShapeView(begin)), Shape(ShapeView(shape))};
}

struct Swept {
  Pairs pairs;
  std::uint64_t steps;
};

Swept sweep(const std::vector<Box>& boxes, std::size_t rank) {
  std::vector<std::size_t> chosen(boxes.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  const std::vector<std::size_t> dims = dims_by_cuts(boxes, chosen, rank);
  BoxSweep made(boxes, chosen, dims);
  Pairs pairs = made.pairs();
  return {std::move(pairs), made.steps()};
}

TEST(BoxSweep, AgreesWithAllPairs) {
  std::mt19937 random(9);
  const auto draw = [&](std::uint64_t from, std::uint64_t to) {
    return std::uniform_int_distribution<std::uint64_t>(from, to)(random);
  };
  std::size_t overlaps = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    const std::size_t rank = draw(0, 4);
    std::vector<Box> boxes(draw(0, 12));
    for (Box& box : boxes) {
      std::vector<std::uint64_t> begin(rank), shape(rank);
      for (std::size_t dim = 0; dim < rank; ++dim) begin[dim] = draw(0, 6), shape[dim] = draw(1, 4);
      box = box_of(begin, shape);
    }
    Pairs expected;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (std::size_t j = i + 1; j < boxes.size(); ++j) {
        if (overlap(boxes[i], boxes[j])) expected.emplace_back(i, j);
      }
    }
    EXPECT_EQ(sweep(boxes, rank).pairs, expected);
    overlaps += expected.size();
  }
  EXPECT_GT(overlaps, 5000U);
}

// All boxes are open at the same time, in both dimensions, and no two of them overlap.
TEST(BoxSweep, BoundsStepsForDisjointBoxes) {
  for (const std::uint64_t count : {2U, 100U, 4000U}) {
    std::vector<Box> boxes;
    for (std::uint64_t i = 0; i < count; ++i) {
      boxes.push_back(box_of({0, i}, {i + 1, 1}));
      boxes.push_back(box_of({i + 1, i}, {count - i, 1}));
    }
    const Swept swept = sweep(boxes, 2);
    EXPECT_EQ(swept.pairs, Pairs());
    EXPECT_LE(swept.steps, boxes.size() * (4 + 4 * std::bit_width(boxes.size())));
  }
}

TEST(BoxSweep, BoundsStepsForRowsBesideColumns) {
  constexpr std::uint64_t kCount = 2000;
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    boxes.push_back(box_of({i, 0}, {1, kCount}));
    boxes.push_back(box_of({0, kCount + i}, {kCount, 1}));
  }
  const Swept swept = sweep(boxes, 2);
  EXPECT_EQ(swept.pairs, Pairs());
  EXPECT_LE(swept.steps, boxes.size() * (4 + 4 * std::bit_width(boxes.size())));
}

TEST(BoxSweep, PutsDimensionWithMostCutsFirst) {
  const std::vector<Box> boxes{box_of({0, 0, 0}, {1, 1, 1}), box_of({0, 1, 5}, {1, 1, 1}),
                               box_of({0, 1, 7}, {1, 1, 1})};
  const std::vector<std::size_t> chosen{0, 1, 2};
  EXPECT_EQ(dims_by_cuts(boxes, chosen, 3), (std::vector<std::size_t>{2, 1, 0}));
  EXPECT_EQ(dims_by_cuts(boxes, chosen, 0), std::vector<std::size_t>());
}

}  // namespace
}  // namespace safetensors::format
