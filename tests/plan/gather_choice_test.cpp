// The choice between reads and maps, from times that the tests make up.
#include "plan/worker.h"

#include <chrono>

#include <gtest/gtest.h>

namespace safetensors::plan {
namespace {

using Way = GatherChoice::Way;
using std::chrono::nanoseconds;

// Returns how many of the next `rounds` choices are maps. Each way takes the given time for 10 pieces.
int maps_of(GatherChoice& choice, int rounds, nanoseconds map, nanoseconds read) {
  int maps = 0;
  for (int i = 0; i < rounds; ++i) {
    const Way way = choice.next();
    maps += way == Way::map ? 1 : 0;
    choice.record(way, 10, way == Way::map ? map : read);
  }
  return maps;
}

TEST(GatherChoice, TriesBothFirst) {
  GatherChoice choice;
  EXPECT_EQ(choice.next(), Way::map);
  choice.record(Way::map, 1, nanoseconds(1));
  EXPECT_EQ(choice.next(), Way::read);
}

TEST(GatherChoice, TakesTheFasterOneAndSometimesTheOther) {
  GatherChoice fast_map;
  EXPECT_EQ(maps_of(fast_map, 320, nanoseconds(10), nanoseconds(30)), 320 - 1 - 10);
  GatherChoice fast_read;
  EXPECT_EQ(maps_of(fast_read, 320, nanoseconds(30), nanoseconds(10)), 1 + 10);
}

TEST(GatherChoice, NoticesThatTheOtherOneBecameFaster) {
  GatherChoice choice;
  maps_of(choice, 64, nanoseconds(10), nanoseconds(30));
  EXPECT_LT(maps_of(choice, 320, nanoseconds(100), nanoseconds(30)), 40);
}

TEST(GatherChoice, ReadsIfMapsAreRefusedAndTriesAgainLater) {
  GatherChoice choice;
  EXPECT_EQ(choice.next(), Way::map);
  choice.refuse_map();
  choice.record(Way::read, 10, nanoseconds(30));
  EXPECT_LE(maps_of(choice, 31, nanoseconds(10), nanoseconds(30)), 1);
  EXPECT_GT(maps_of(choice, 64, nanoseconds(10), nanoseconds(30)), 30);
}

}  // namespace
}  // namespace safetensors::plan
