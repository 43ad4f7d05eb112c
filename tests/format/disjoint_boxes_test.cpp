// DisjointBoxes: what remains of each box, the limits, and the number of steps. reshard_test.cpp compares the pieces
// with single elements.
#include "format/checkpoint/disjoint_boxes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/io_support.h"

namespace safetensors::format {
namespace {

Box cuboid(std::vector<std::uint64_t> begin, std::vector<std::uint64_t> shape) {
  return {Shape(ShapeView(begin)), Shape(ShapeView(shape))};
}

// The pieces as text, each after the index of its source.
std::vector<std::string> pieces_of(const std::vector<Box>& boxes) {
  const Result<DisjointBoxes> made = DisjointBoxes::of(boxes, boxes[0].shape.rank());
  EXPECT_TRUE(test::succeeds(made));
  std::vector<std::string> pieces;
  for (const DisjointBoxes::Piece& piece : made->pieces())
    pieces.push_back(std::to_string(piece.source) + " " + to_string(*piece.box));
  return pieces;
}

using Texts = std::vector<std::string>;

TEST(DisjointBoxes, KeepsFirstOfEqualBoxes) {
  const Box left = cuboid({0, 0}, {2, 3}), right = cuboid({0, 3}, {2, 3});
  EXPECT_EQ(pieces_of({right, left, right, left, cuboid({0, 0}, {0, 6})}), (Texts{"0 [0:2, 3:6]", "1 [0:2, 0:3]"}));
}

TEST(DisjointBoxes, CutsRanges) {
  const auto range = [](std::uint64_t begin, std::uint64_t end) { return cuboid({begin}, {end - begin}); };
  EXPECT_EQ(pieces_of({range(2, 4), range(6, 8), range(0, 10), range(3, 7), range(10, 12), range(0, 20)}),
            (Texts{"0 [2:4]", "1 [6:8]", "2 [0:2]", "2 [4:6]", "2 [8:10]", "4 [10:12]", "5 [12:20]"}));
}

TEST(DisjointBoxes, CutsBoxes) {
  EXPECT_EQ(pieces_of({cuboid({1, 1}, {2, 2}), cuboid({0, 0}, {2, 2}), cuboid({1, 1}, {1, 1})}),
            (Texts{"0 [1:3, 1:3]", "1 [1:2, 0:1]", "1 [0:1, 0:2]"}));
}

// Each range overlaps each other one.
TEST(DisjointBoxes, NeedsFewStepsForRanges) {
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < 20000; ++i) boxes.push_back(cuboid({5, i}, {3, 20000}));
  const Result<DisjointBoxes> made = DisjointBoxes::of(boxes, 2);
  ASSERT_TRUE(test::succeeds(made));
  EXPECT_EQ(made->pieces().size(), boxes.size());
  EXPECT_LE(made->steps(), 2 * boxes.size());
}

// Rows hide the columns after them. Each column is compared with each row a few times.
TEST(DisjointBoxes, BoundsStepsForHiddenBoxes) {
  constexpr std::uint64_t kCount = 128;
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < kCount; ++i) boxes.push_back(cuboid({i, 0}, {1, kCount}));
  for (std::uint64_t i = 0; i < kCount; ++i) boxes.push_back(cuboid({0, i}, {kCount, 1}));
  const Result<DisjointBoxes> made = DisjointBoxes::of(boxes, 2);
  ASSERT_TRUE(test::succeeds(made));
  EXPECT_EQ(made->pieces().size(), kCount);
  EXPECT_LE(made->steps(), 40 * kCount * kCount);
}

std::string refused(const std::vector<Box>& boxes) {
  const Error error = test::error_of(DisjointBoxes::of(boxes, boxes[0].shape.rank()));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  return error.message;
}

TEST(DisjointBoxes, RefusesTooManyOverlaps) {
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < 1000; ++i) boxes.push_back(cuboid({i, i}, {1000, 1000}));
  EXPECT_EQ(max_overlaps(1000), 278144U);
  EXPECT_EQ(refused(boxes), "too many of 1000 saved boxes overlap without being equal: more than 278144 pairs");
}

// Plates across three axes leave a grid of cells, and then a box takes what remains: 65 x 65 x 65 cells.
TEST(DisjointBoxes, RefusesTooManyPieces) {
  constexpr std::uint64_t kCount = 65;
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    boxes.push_back(cuboid({2 * i, 0, 0}, {1, 2 * kCount, 2 * kCount}));
    boxes.push_back(cuboid({0, 2 * i, 0}, {2 * kCount, 1, 2 * kCount}));
    boxes.push_back(cuboid({0, 0, 2 * i}, {2 * kCount, 2 * kCount, 1}));
  }
  boxes.push_back(cuboid({0, 0, 0}, {2 * kCount, 2 * kCount, 2 * kCount}));
  EXPECT_EQ(refused(boxes), "too many of 196 saved boxes overlap without being equal: more than 265280 pieces");
}

// The box in the middle of a list is at an end of the row, so each cut takes one box off the list.
TEST(DisjointBoxes, RefusesTooManyStepsForCutting) {
  constexpr std::uint64_t kHalf = 5000;
  std::vector<Box> boxes;
  for (std::uint64_t i = kHalf; i > 0; --i) boxes.push_back(cuboid({0, 4 * i - 2}, {1, 1}));
  for (std::uint64_t i = 0; i < kHalf; ++i) boxes.push_back(cuboid({0, 4 * i}, {1, 1}));
  boxes.push_back(cuboid({0, 0}, {2, 4 * kHalf}));
  EXPECT_EQ(refused(boxes), "too many of 10001 saved boxes overlap without being equal: more than 27018240 steps");
}

}  // namespace
}  // namespace safetensors::format
