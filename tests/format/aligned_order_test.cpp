// Orders for alignment: every index once, pairs before larger groups, and the number of aligned tensors.
#include "format/header/aligned_order.h"

#include <gtest/gtest.h>
#include <safetensors/header.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace safetensors::test {
namespace {

using Sizes = std::vector<std::uint64_t>;
using Order = std::vector<std::size_t>;

std::size_t count_aligned(const Sizes& sizes, const Order& order, std::uint64_t alignment) {
  std::uint64_t offset = 0;
  std::size_t aligned = 0;
  for (const std::size_t i : order) {
    aligned += offset % alignment == 0 ? 1 : 0;
    offset += sizes[i];
  }
  return aligned;
}

// The largest number that any order reaches, by trying all of them.
std::size_t best(const Sizes& sizes, std::uint64_t alignment) {
  Order order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::size_t most = 0;
  do {
    most = std::max(most, count_aligned(sizes, order, alignment));
  } while (std::next_permutation(order.begin(), order.end()));
  return most;
}

TEST(AlignedOrder, PutsWholeMultiplesFirst) {
  EXPECT_EQ(format::aligned_order(Sizes{10, 64, 128, 64}, 64), (Order{1, 2, 3, 0}));
}

TEST(AlignedOrder, PairsRemainders) {
  EXPECT_EQ(format::aligned_order(Sizes{10, 20, 44, 54, 32, 96}, 64), (Order{0, 3, 1, 2, 4, 5}));
}

TEST(AlignedOrder, FindsGroupsOfThreeAndFour) {
  const Sizes sizes{16, 16, 16, 16, 24, 24, 16};
  EXPECT_EQ(count_aligned(sizes, format::aligned_order(sizes, 64), 64), best(sizes, 64));
}

TEST(AlignedOrder, AcceptsNothing) {
  EXPECT_EQ(format::aligned_order(Sizes{}, 4096), Order{});
  EXPECT_EQ(format::aligned_order(Sizes{0, 0}, 1), (Order{0, 1}));
}

// Random sizes: a permutation that is close to the best one, and exactly the best one for two remainders.
TEST(AlignedOrder, IsCloseToBest) {
  std::mt19937 random(7);
  std::size_t reached = 0;
  std::size_t possible = 0;
  for (int round = 0; round < 300; ++round) {
    Sizes sizes(1 + random() % 7);
    for (std::uint64_t& size : sizes) size = 4 * (random() % 8);
    const Order order = format::aligned_order(sizes, 16);
    Order sorted = order;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], i);
    reached += count_aligned(sizes, order, 16);
    possible += best(sizes, 16);
  }
  EXPECT_GE(reached * 100, possible * 99) << reached << " of " << possible;
}

TEST(AlignedOrder, TakesLinearTime) {
  std::mt19937_64 random(8);
  Sizes sizes(100'000);
  for (std::uint64_t& size : sizes) size = 1 + 2 * (random() % 32768);  // odd remainders: groups are even
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(format::aligned_order(sizes, 65536).size(), sizes.size());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// Elements stay aligned to their size in every group.
TEST(AlignedOrder, HeaderKeepsElementsAligned) {
  std::mt19937 random(9);
  for (int round = 0; round < 100; ++round) {
    HeaderBuilder builder;
    for (int i = 0; i < 30; ++i) {
      constexpr Dtype kDtypes[] = {Dtype::F64, Dtype::F32, Dtype::BF16, Dtype::U8};
      ASSERT_TRUE(builder.add("t" + std::to_string(i), kDtypes[random() % 4], {random() % 50}));
    }
    const Header header = builder.build({.data_alignment = 64, .order = TensorOrder::aligned}).value();
    EXPECT_EQ(header.data_start() % 64, 0U);
    for (const TensorInfo& tensor : header.tensors()) EXPECT_EQ(tensor.file_offset % (bits(tensor.dtype) / 8), 0U);
  }
}

TEST(AlignedOrder, HeaderKeepsGivenOrder) {
  HeaderBuilder builder;
  ASSERT_TRUE(builder.add("z", Dtype::U8, {3}));
  ASSERT_TRUE(builder.add("a", Dtype::F64, {1}));
  const Header header = builder.build({.order = TensorOrder::given}).value();
  EXPECT_EQ(header.find("z")->begin, 0U);
  EXPECT_EQ(header.find("a")->begin, 3U);
  EXPECT_EQ(header.text().value(),
            "{\"z\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
            "\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[3,11]}}     ");
}

}  // namespace
}  // namespace safetensors::test
