#include <gtest/gtest.h>
#include <safetensors/shape.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace {

using safetensors::Errc;
using safetensors::Shape;
using safetensors::ShapeView;
using safetensors::to_string;

// One for each rank: without memory of its own up to kInline, with it beyond.
std::vector<std::uint64_t> dims(std::size_t rank) {
  std::vector<std::uint64_t> values(rank);
  for (std::size_t i = 0; i < rank; ++i) values[i] = 10 * rank + i;
  return values;
}

void expect_dims(const Shape& shape, const std::vector<std::uint64_t>& expected) {
  ASSERT_EQ(shape.rank(), expected.size());
  EXPECT_EQ(shape.size(), expected.size());
  EXPECT_EQ(shape.empty(), expected.empty());
  EXPECT_EQ(std::vector<std::uint64_t>(shape.begin(), shape.end()), expected);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(shape[i], expected[i]);
  const ShapeView view = shape;
  EXPECT_EQ(view.data(), shape.data());
  EXPECT_EQ(view.size(), expected.size());
}

TEST(Shape, IsScalarByDefault) {
  expect_dims(Shape(), {});
  expect_dims(Shape{}, {});
  EXPECT_EQ(Shape(), Shape(ShapeView()));
  EXPECT_EQ(to_string(Shape()), "[]");
}

TEST(Shape, TakesListOrView) {
  expect_dims({2, 3}, {2, 3});
  expect_dims({7}, {7});
  expect_dims({1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7});
  for (std::size_t rank = 0; rank <= 2 * Shape::kInline; ++rank) {
    const std::vector<std::uint64_t> values = dims(rank);
    expect_dims(Shape(ShapeView(values)), values);
  }
}

TEST(Shape, CopiesDimensionsOfView) {
  for (std::size_t rank = 0; rank <= 2 * Shape::kInline; ++rank) {
    std::vector<std::uint64_t> values = dims(rank);
    const Shape shape{ShapeView(values)};
    for (std::uint64_t& value : values) value = 0;
    expect_dims(shape, dims(rank));
  }
}

TEST(Shape, CopiesIndependently) {
  for (std::size_t rank = 0; rank <= 2 * Shape::kInline; ++rank) {
    Shape original{ShapeView(dims(rank))};
    const Shape copy(original);  // NOLINT(performance-unnecessary-copy-initialization)
    expect_dims(copy, dims(rank));
    if (rank > 0) original.data()[rank - 1] = 99;
    expect_dims(copy, dims(rank));
    EXPECT_EQ(original == copy, rank == 0);
  }
}

TEST(Shape, IsEmptyAfterMove) {
  for (std::size_t rank = 0; rank <= 2 * Shape::kInline; ++rank) {
    Shape original{ShapeView(dims(rank))};
    const Shape moved(std::move(original));
    expect_dims(moved, dims(rank));
    expect_dims(original, {});  // NOLINT(bugprone-use-after-move)
  }
}

TEST(Shape, AssignsAnyRankToAnyRank) {
  for (std::size_t from = 0; from <= Shape::kInline + 3; ++from) {
    for (std::size_t to = 0; to <= Shape::kInline + 3; ++to) {
      Shape source{ShapeView(dims(from))};
      Shape copied{ShapeView(dims(to))};
      Shape moved{ShapeView(dims(to))};
      copied = source;
      expect_dims(copied, dims(from));
      expect_dims(source, dims(from));
      moved = std::move(source);
      expect_dims(moved, dims(from));
      expect_dims(source, {});  // NOLINT(bugprone-use-after-move)
      source = copied;          // usable again
      expect_dims(source, dims(from));
    }
  }
}

TEST(Shape, SurvivesSelfAssignment) {
  for (const std::size_t rank : {std::size_t{0}, std::size_t{3}, Shape::kInline, Shape::kInline + 1}) {
    Shape shape{ShapeView(dims(rank))};
    Shape& same = shape;
    shape = same;
    expect_dims(shape, dims(rank));
    shape = std::move(same);
    expect_dims(shape, dims(rank));
  }
}

TEST(Shape, ComparesDimensionsInOrder) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE((Shape{0}), Shape());
  const std::vector<std::uint64_t> many = dims(Shape::kInline + 1);
  EXPECT_EQ(Shape(ShapeView(many)), Shape(ShapeView(many)));
  EXPECT_NE(Shape(ShapeView(many)), Shape(ShapeView(many).first(Shape::kInline)));
}

TEST(Shape, AllowsWritesToDimensions) {
  for (const std::size_t rank : {Shape::kInline, Shape::kInline + 1}) {
    Shape shape{ShapeView(dims(rank))};
    shape.data()[0] = 5;
    std::vector<std::uint64_t> expected = dims(rank);
    expected[0] = 5;
    expect_dims(shape, expected);
  }
}

TEST(ShapeText, ShowsDimensionsInBrackets) {
  EXPECT_EQ(to_string(Shape{0}), "[0]");
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
  EXPECT_EQ(to_string(Shape{18446744073709551615u}), "[18446744073709551615]");
}

TEST(ShapeText, IsCutAfter8DimensionsOver16) {
  const std::vector<std::uint64_t> ones(17, 1);
  EXPECT_EQ(to_string(ShapeView(ones).first(16)), "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]");
  EXPECT_EQ(to_string(ones), "[1, 1, 1, 1, 1, 1, 1, 1, ... 17 dimensions]");
}

}  // namespace
