// BoxPairs against the comparison of all pairs, and the number of its steps.
#include "format/checkpoint/box_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

#include "format/checkpoint/box_arithmetic.h"

namespace safetensors::format {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Box box_of(std::vector<std::uint64_t> begin, std::vector<std::uint64_t> shape) {
  return {Shape(ShapeView(begin)), Shape(ShapeView(shape))};
}

std::vector<const Box*> pointers(const std::vector<Box>& boxes) {
  std::vector<const Box*> made;
  for (const Box& box : boxes) made.push_back(&box);
  return made;
}

struct Found {
  Pairs pairs;
  std::uint64_t steps;
};

Found found_by(BoxPairs made) {
  Pairs pairs;
  EXPECT_TRUE(made.each([&](std::size_t a, std::size_t b) {
    pairs.emplace_back(a, b);
    return true;
  }));
  std::sort(pairs.begin(), pairs.end());
  return {std::move(pairs), made.steps()};
}

Found find(const std::vector<Box>& boxes) {
  return found_by(BoxPairs(pointers(boxes)));
}

class Random {
 public:
  std::uint64_t draw(std::uint64_t from, std::uint64_t to) {
    return std::uniform_int_distribution<std::uint64_t>(from, to)(generator_);
  }
  std::vector<Box> boxes(std::size_t count, std::size_t rank, std::uint64_t max) {
    std::vector<Box> boxes(count);
    for (Box& box : boxes) {
      std::vector<std::uint64_t> begin(rank), shape(rank);
      for (std::size_t dim = 0; dim < rank; ++dim) begin[dim] = draw(0, max), shape[dim] = draw(1, max);
      box = box_of(begin, shape);
    }
    return boxes;
  }

 private:
  std::mt19937 generator_{9};
};

TEST(BoxPairs, AgreesWithAllPairs) {
  Random random;
  std::size_t overlaps = 0;
  for (int turn = 0; turn < 1500; ++turn) {
    const std::vector<Box> boxes =
        random.boxes(random.draw(0, turn % 50 == 0 ? 150 : 25), random.draw(0, 7), random.draw(1, 20));
    Pairs expected;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (std::size_t j = i + 1; j < boxes.size(); ++j) {
        if (overlap(boxes[i], boxes[j])) expected.emplace_back(i, j);
      }
    }
    EXPECT_EQ(find(boxes).pairs, expected);
    overlaps += expected.size();
  }
  EXPECT_GT(overlaps, 20000U);
}

TEST(BoxPairs, AgreesWithAllPairsOfTwoLists) {
  Random random;
  std::size_t overlaps = 0;
  for (int turn = 0; turn < 1500; ++turn) {
    const std::size_t rank = random.draw(0, 4);
    const std::uint64_t max = random.draw(1, 20);
    const std::vector<Box> left = random.boxes(random.draw(0, turn % 50 == 0 ? 150 : 25), rank, max);
    const std::vector<Box> right = random.boxes(random.draw(0, 25), rank, max);
    Pairs expected;
    for (std::size_t i = 0; i < left.size(); ++i) {
      for (std::size_t j = 0; j < right.size(); ++j) {
        if (overlap(left[i], right[j])) expected.emplace_back(i, j);
      }
    }
    EXPECT_EQ(found_by(BoxPairs(pointers(left), pointers(right))).pairs, expected);
    overlaps += expected.size();
  }
  EXPECT_GT(overlaps, 20000U);
}

TEST(BoxPairs, EndsWhenTold) {
  const std::vector<Box> boxes(3000, box_of({0, 0}, {2, 2}));
  BoxPairs pairs(pointers(boxes));
  int visits = 0;
  EXPECT_FALSE(pairs.each([&](std::size_t, std::size_t) { return ++visits < 5; }));
  EXPECT_EQ(visits, 5);
  EXPECT_LE(pairs.steps(), 3 * boxes.size());
}

// The steps per box of boxes that are disjoint.
double steps_per_box(const std::vector<Box>& boxes) {
  const Found found = find(boxes);
  EXPECT_EQ(found.pairs, Pairs());
  return static_cast<double>(found.steps) / static_cast<double>(boxes.size());
}

TEST(BoxPairs, NeedsFewStepsForBoxesApartInOneDimension) {
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < 4000; ++i) boxes.push_back(box_of({i, i, i}, {4000, 4000, 1}));
  EXPECT_LE(steps_per_box(boxes), 6 * std::bit_width(boxes.size()));
}

// All boxes are open at the same time, in both dimensions, and no two of them overlap.
TEST(BoxPairs, BoundsStepsForStairs) {
  for (const std::uint64_t count : {2U, 100U, 4000U}) {
    std::vector<Box> boxes;
    for (std::uint64_t i = 0; i < count; ++i) {
      boxes.push_back(box_of({0, i}, {i + 1, 1}));
      boxes.push_back(box_of({i + 1, i}, {count - i, 1}));
    }
    EXPECT_LE(steps_per_box(boxes), 6 * std::bit_width(boxes.size()));
  }
}

TEST(BoxPairs, BoundsStepsForRowsBesideColumns) {
  constexpr std::uint64_t kCount = 2000;
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    boxes.push_back(box_of({i, 0}, {1, kCount}));
    boxes.push_back(box_of({0, kCount + i}, {kCount, 1}));
  }
  EXPECT_LE(steps_per_box(boxes), 6 * std::bit_width(boxes.size()));
}

// Each row meets each column in two dimensions.
TEST(BoxPairs, BoundsStepsForRowsOnColumns) {
  constexpr std::uint64_t kCount = 2000;
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    boxes.push_back(box_of({i, 0, 0}, {1, kCount, 1}));
    boxes.push_back(box_of({0, i, 1}, {kCount, 1, 1}));
  }
  EXPECT_LE(steps_per_box(boxes), 10 * std::bit_width(boxes.size()));
}

// Rods along three axes. Each rod meets many others in two dimensions, whichever dimensions are chosen.
TEST(BoxPairs, BoundsStepsForRods) {
  constexpr std::uint64_t kCount = 40;
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < 2 * kCount; i += 2) {
    for (std::uint64_t j = 0; j < 2 * kCount; j += 2) {
      boxes.push_back(box_of({0, i, j}, {2 * kCount, 1, 1}));
      boxes.push_back(box_of({i, 0, j + 1}, {1, 2 * kCount, 1}));
      boxes.push_back(box_of({i + 1, j + 1, 0}, {1, 1, 2 * kCount}));
    }
  }
  EXPECT_LE(steps_per_box(boxes), 16 * std::bit_width(boxes.size()));
}

TEST(BoxPairs, BoundsStepsForOverlaps) {
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < 500; ++i) boxes.push_back(box_of({i, i}, {500, 500}));
  const Found found = find(boxes);
  EXPECT_EQ(found.pairs.size(), 500U * 499 / 2);
  EXPECT_LE(found.steps, 3 * found.pairs.size());
}

}  // namespace
}  // namespace safetensors::format
