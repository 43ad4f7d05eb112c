// Memory of an Arena: a later load uses it again, and it never holds two live results at the same address.
#include <gtest/gtest.h>
#include <safetensors/arena.h>
#include <safetensors/read_plan.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/plan_support.h"
#include "support/sanitizers.h"

namespace safetensors {
namespace {

using namespace test;

class ArenaTest : public testing::Test {
 protected:
  ArenaTest() {
    PlanRandom random(3);
    for (int i = 0; i < 12; ++i) {
      const auto size = static_cast<std::size_t>(i % 3 == 0 ? 3'000'000 + random.up_to(999) : random.up_to(90'000));
      tensors.push_back(
          {.name = "t" + std::to_string(i), .dtype = Dtype::U8, .shape = {size}, .bytes = random.bytes(size)});
    }
    bytes = file_of(tensors, 0);
    file.emplace(*File::from_memory(std::as_bytes(std::span(bytes)), nullptr));
    for (const PlannedTensor& planned : tensors) EXPECT_TRUE(succeeds(plan.add(tensor(*file, planned.name))));
  }
  void expect_arrays(const std::vector<Array>& arrays) const {
    ASSERT_EQ(arrays.size(), tensors.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) EXPECT_TRUE(data_of(arrays[i]) == tensors[i].bytes) << i;
  }
  static std::vector<const std::byte*> addresses(const ReadResult& result) {
    std::vector<const std::byte*> all;
    for (const Array& array : result.arrays) all.push_back(array.bytes().data());
    return all;
  }

  std::vector<PlannedTensor> tensors;
  std::string bytes;
  std::optional<File> file;
  ReadPlan plan;
  Arena arena;
};

TEST_F(ArenaTest, ReusesMemoryWithoutPageFaults) {
  std::vector<const std::byte*> first;
  std::uint64_t reserved = 0;
  for (int load = 0; load < 5; ++load) {
    const Result<ReadResult> result = plan.execute({.threads = 2, .arena = &arena});
    ASSERT_TRUE(succeeds(result));
    expect_arrays(result->arrays);
    if (load == 0) {
      first = addresses(*result);
      reserved = arena.reserved_bytes();
      EXPECT_EQ(arena.live_bytes(), reserved);
      continue;
    }
    EXPECT_EQ(addresses(*result), first);
    EXPECT_EQ(arena.reserved_bytes(), reserved);
    // The faults are those of stacks and allocations, not of the pages of twelve megabytes. A sanitizer's own memory
    // faults, too.
    if (!kSanitized) {
      EXPECT_LT(result->report.page_faults, plan.nbytes() / 4096 / 8);
    }
  }
  EXPECT_EQ(arena.live_bytes(), 0U);
  EXPECT_EQ(arena.trim(), reserved);
  EXPECT_EQ(arena.reserved_bytes(), reserved);
}

TEST_F(ArenaTest, KeepsSurvivorsOverTenLoads) {
  std::vector<std::pair<std::size_t, Array>> survivors;
  std::uint64_t reserved = 0;
  for (std::size_t load = 0; load < 11; ++load) {
    Result<ReadResult> result = plan.execute({.threads = 2, .arena = &arena});
    ASSERT_TRUE(succeeds(result));
    expect_arrays(result->arrays);
    if (load == 0) reserved = arena.reserved_bytes();
    if (load < 3) survivors.emplace_back(load * 4 + 1, std::exchange(result->arrays[load * 4 + 1], Array()));
    for (Array& array : result->arrays)
      if (array.nbytes() != 0) std::ranges::fill(array.mutable_bytes().value(), std::byte{0xdd});
  }
  for (const auto& [number, array] : survivors) EXPECT_TRUE(data_of(array) == tensors[number].bytes) << number;
  EXPECT_LE(arena.live_bytes(), survivors.size() * 2 * (2U << 20));
  EXPECT_LE(arena.reserved_bytes(), 3 * reserved);
}

TEST(StreamArena, HoldsOnlyItemsInFlight) {
  constexpr std::size_t kPage = 2U << 20;
  constexpr std::size_t kCount = 10;
  std::vector<PlannedTensor> growing;
  for (std::size_t i = 1; i <= kCount; ++i)
    growing.push_back({.name = "t" + std::to_string(i + 10),
                       .dtype = Dtype::U8,
                       .shape = {i * kPage},
                       .bytes = std::string(i * kPage, static_cast<char>(i))});
  const std::string bytes = file_of(growing, 0);
  const File file = *File::from_memory(std::as_bytes(std::span(bytes)), nullptr);
  ReadPlan plan;
  for (const PlannedTensor& planned : growing) ASSERT_TRUE(succeeds(plan.add(tensor(file, planned.name))));
  Arena arena;
  Result<Stream> stream = plan.stream({.threads = 2, .memory_limit = 2 * kPage, .arena = &arena});
  ASSERT_TRUE(succeeds(stream));
  std::size_t taken = 0;
  while (true) {
    Result<std::optional<StreamItem>> item = stream->next();
    ASSERT_TRUE(succeeds(item));
    if (!*item) break;
    EXPECT_EQ((**item).array.bytes().back(), static_cast<std::byte>((**item).index + 1));
    ++taken;
  }
  EXPECT_EQ(taken, kCount);
  // The tensors that are read, those that were just handed out, and pages at their edges. All tensors together are 55
  // pages.
  EXPECT_LE(arena.reserved_bytes(), (kCount + kCount - 1 + 4) * kPage);
}

TEST_F(ArenaTest, ServesSeveralPlansAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Array> kept;
      for (int load = 0; load < 6; ++load) {
        if (t == 2) {
          Result<Stream> stream = plan.stream({.threads = 2, .arena = &arena});
          ASSERT_TRUE(succeeds(stream));
          std::size_t items = 0;
          for (;; ++items) {
            const Result<std::optional<StreamItem>> item = stream->next();
            ASSERT_TRUE(succeeds(item));
            if (!*item) break;
            EXPECT_TRUE(data_of((**item).array) == tensors[(**item).index].bytes);
          }
          EXPECT_EQ(items, tensors.size());
          continue;
        }
        Result<ReadResult> result = plan.execute({.threads = 2, .arena = &arena});
        ASSERT_TRUE(succeeds(result));
        expect_arrays(result->arrays);
        if (!kept.empty()) expect_arrays(kept);
        kept = std::move(result->arrays);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.live_bytes(), 0U);
}

TEST_F(ArenaTest, KeepsArraysAlive) {
  Result<ReadResult> result = plan.execute({.arena = &arena});
  ASSERT_TRUE(succeeds(result));
  result->arrays[2] = Array();
  arena = Arena();
  result->arrays[5] = Array();
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{4}, std::size_t{11}})
    EXPECT_TRUE(data_of(result->arrays[i]) == tensors[i].bytes) << i;
}

TEST_F(ArenaTest, ServesAfterMove) {
  const Arena other = std::move(arena);
  EXPECT_EQ(arena.reserved_bytes(), 0U);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(arena.trim(), 0U);
  const Result<ReadResult> result = plan.execute({.arena = &arena});
  ASSERT_TRUE(succeeds(result));
  expect_arrays(result->arrays);
  EXPECT_EQ(other.reserved_bytes(), 0U);
}

}  // namespace
}  // namespace safetensors
