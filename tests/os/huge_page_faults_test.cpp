// The choice between huge and small pages, and the pages that fault_in() asks for.
#include "os/huge_page_faults.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "os/memory.h"

namespace safetensors::os {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The number of small pages before the next huge one.
int pause_of(HugePageChoice& choice) {
  int small = 0;
  while (!choice.next()) ++small;
  return small;
}

TEST(HugePageChoice, QuickPagesStayHuge) {
  HugePageChoice choice;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(choice.next());
    choice.record(microseconds(1999));
  }
}

TEST(HugePageChoice, SlowPagesArePausedForLongerAndLonger) {
  HugePageChoice choice;
  ASSERT_TRUE(choice.next());
  for (int pause = HugePageChoice::kFirstPause; pause < HugePageChoice::kLongestPause; pause *= 2) {
    choice.record(milliseconds(12));
    EXPECT_EQ(pause_of(choice), pause);
  }
  for (int i = 0; i < 2; ++i) {
    choice.record(milliseconds(12));
    EXPECT_EQ(pause_of(choice), HugePageChoice::kLongestPause);
  }
  for (int i = 0; i < 20; ++i) choice.record(microseconds(200));  // the memory is better again
  EXPECT_EQ(pause_of(choice), 0);
  choice.record(milliseconds(12));
  EXPECT_EQ(pause_of(choice), HugePageChoice::kFirstPause);
}

TEST(HugePageChoice, ThreadsThatWaitTogetherCountOnce) {
  HugePageChoice choice;
  for (int thread = 0; thread < 16; ++thread) EXPECT_TRUE(choice.next());
  for (int thread = 0; thread < 16; ++thread) choice.record(milliseconds(12));
  EXPECT_EQ(pause_of(choice), HugePageChoice::kFirstPause);
  choice.record(milliseconds(12));
  EXPECT_EQ(pause_of(choice), 2 * HugePageChoice::kFirstPause);
}

std::size_t resident_bytes(const std::byte* begin, std::size_t size) {
  constexpr std::size_t kPage = 4096;
  std::vector<unsigned char> pages(size / kPage);
  if (::mincore(const_cast<std::byte*>(begin), size, pages.data()) != 0) return 0;
  return kPage * static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return page & 1; }));
}

// A page belongs to the part in which it begins, so that two threads do not both ask for it.
TEST(FaultIn, ProvidesThePagesThatBeginInThePart) {
  const Pages pages = map_pages(4 * kHugePage + 8192);
  ASSERT_NE(pages.begin, nullptr);
  if (::madvise(pages.begin, 4096, 23) != 0) GTEST_SKIP() << "the system is older than Linux 5.14";
  (void)::madvise(pages.begin, pages.size, MADV_DONTNEED);
  fault_in({pages.begin + 1, kHugePage});
  EXPECT_EQ(resident_bytes(pages.begin, kHugePage), 0U);
  EXPECT_GE(resident_bytes(pages.begin + kHugePage, kHugePage), 4096U);
  fault_in({pages.begin + 2 * kHugePage - 1, 2 * kHugePage + 8193});
  EXPECT_EQ(resident_bytes(pages.begin + 2 * kHugePage, 2 * kHugePage + 8192), 2 * kHugePage + 8192);
  EXPECT_EQ(resident_bytes(pages.begin, kHugePage), 0U);
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{0}; }));
  fault_in({pages.begin, 0});
  EXPECT_TRUE(unmap_pages(pages));
}

TEST(FaultIn, KeepsBytes) {
  const Pages pages = map_pages(2 * kHugePage);
  ASSERT_NE(pages.begin, nullptr);
  std::fill_n(pages.begin, pages.size, std::byte{7});
  fault_in({pages.begin, pages.size});
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{7}; }));
  EXPECT_TRUE(unmap_pages(pages));
}

}  // namespace
}  // namespace safetensors::os
