// The choice between huge and small pages, and the pages that fault_in() asks for.
#include "os/huge_page_faults.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "os/memory.h"

namespace safetensors::os {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

using Choice = HugePageChoice;

// The number of times that small pages are chosen, each of which takes `time`, before the next huge page.
std::int64_t small_run(Choice& choice, Choice::Time time) {
  std::int64_t small = 0;
  for (; !choice.next(); ++small) choice.record(false, time);
  return small;
}

TEST(HugePageChoice, QuickPagesStayHuge) {
  Choice choice;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(choice.next());
    choice.record(true, microseconds(999));
  }
}

// Fragmented memory: a huge page of 12 ms beside small pages of 0.6 ms. In the end, the trials cost a twentieth of the
// small pages.
TEST(HugePageChoice, SmallPagesRunWhileTheyAreQuicker) {
  Choice choice;
  ASSERT_TRUE(choice.next());
  for (const std::int64_t run : {8, 16, 32, 64, 128, 256, 20 * 19, 20 * 19}) {
    choice.record(true, microseconds(12000));
    EXPECT_EQ(small_run(choice, microseconds(600)), 1 + run);
  }
  // The memory is better by now.
  choice.record(true, microseconds(100));
  EXPECT_TRUE(choice.next());
  EXPECT_EQ(small_run(choice, microseconds(600)), 0);
  EXPECT_EQ(choice.times().huge, microseconds(12000));
  EXPECT_EQ(choice.times().small, microseconds(600));
}

TEST(HugePageChoice, RunsAreBounded) {
  Choice choice;
  std::int64_t longest = 0;
  for (int i = 0; i < 20; ++i) {
    choice.record(true, milliseconds(1000));
    longest = std::max(longest, small_run(choice, Choice::kPresent));
  }
  EXPECT_EQ(longest, 1 + Choice::kLongestRun);
}

// A host that brings memory back for pages of either size.
TEST(HugePageChoice, PagesAreHugeIfSmallOnesAreAsSlow) {
  Choice choice;
  int huge = 0;
  int small = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool is_huge = choice.next();
    (is_huge ? huge : small)++;
    choice.record(is_huge, milliseconds(5));
  }
  EXPECT_LT(small, 100);
  EXPECT_EQ(huge + small, 1000);
}

// The run of small pages has used up the memory that was still there.
TEST(HugePageChoice, ARunEndsWithASlowSmallPage) {
  Choice choice;
  choice.record(true, milliseconds(5));
  for (int i = 0; i < 5; ++i) {
    ASSERT_FALSE(choice.next());
    choice.record(false, microseconds(600));
  }
  ASSERT_FALSE(choice.next());
  choice.record(false, milliseconds(5));
  EXPECT_TRUE(choice.next());
}

// One trial costs 5 ms, small pages for 1 GiB 512 times 0.6 ms.
TEST(HugePageChoice, LargePlansBeginWithATrial) {
  Choice choice;
  for (const std::size_t pages : {std::size_t{512}, std::size_t{8}}) {
    choice.record(true, milliseconds(5));
    ASSERT_FALSE(choice.next());
    choice.record(false, microseconds(600));
    choice.begin(pages);
    EXPECT_EQ(choice.next(), pages == 512);
  }
}

// As many pages as bytes exist: nothing overflows.
TEST(HugePageChoice, PlansMayBeOfAnySize) {
  Choice choice;
  choice.record(true, std::chrono::seconds(10));
  ASSERT_FALSE(choice.next());
  choice.record(false, std::chrono::seconds(4));
  choice.begin(~std::uint64_t{0});
  EXPECT_TRUE(choice.next());
}

// Pages of a caller may be there already, and their times say nothing about new ones.
TEST(HugePageChoice, TimesOfPresentPagesAreNotRecorded) {
  Choice choice;
  choice.record(true, milliseconds(12));
  ASSERT_FALSE(choice.next());
  choice.record(false, microseconds(9));
  EXPECT_EQ(choice.times().small, Choice::Time{0});
  EXPECT_TRUE(choice.next());
}

// After a run of small pages, one thread tries a huge page. The others do not wait for it.
TEST(HugePageChoice, OneThreadTriesForAll) {
  Choice choice;
  choice.record(true, milliseconds(5));
  const std::int64_t run = small_run(choice, microseconds(700));  // ends with the trial of this thread
  EXPECT_EQ(run, 1 + Choice::kFirstRun);
  for (int other = 0; other < 7; ++other) EXPECT_FALSE(choice.next());
  choice.record(true, milliseconds(5));
  for (int other = 0; other < 7; ++other) EXPECT_FALSE(choice.next());  // the trial of small pages
  choice.record(false, microseconds(700));
  EXPECT_EQ(small_run(choice, microseconds(700)), 2 * Choice::kFirstRun);
  for (int other = 0; other < 7; ++other) EXPECT_FALSE(choice.next());
  choice.record(true, microseconds(100));
  for (int other = 0; other < 7; ++other) EXPECT_TRUE(choice.next());
}

// A child process does not have the thread that tries.
TEST(HugePageChoice, TrialsThatNeverEndAreForgotten) {
  Choice choice;
  choice.record(true, milliseconds(5));
  (void)small_run(choice, microseconds(700));
  EXPECT_EQ(small_run(choice, microseconds(700)), Choice::kPagesPerTrial - 1);
  choice.record(true, microseconds(100));
  EXPECT_EQ(small_run(choice, microseconds(700)), 0);
}

TEST(HugePageChoice, ThreadsThatWaitTogetherCountOnce) {
  Choice choice;
  for (int thread = 0; thread < 16; ++thread) EXPECT_TRUE(choice.next());
  for (int thread = 0; thread < 16; ++thread) choice.record(true, milliseconds(12));
  EXPECT_EQ(small_run(choice, milliseconds(13)), 1);
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
  HugePageChoice choice;
  EXPECT_EQ(fault_in({pages.begin + 1, kHugePage}, 0, choice), 0U);
  EXPECT_EQ(resident_bytes(pages.begin, kHugePage), 0U);
  EXPECT_GE(resident_bytes(pages.begin + kHugePage, kHugePage), 4096U);
  (void)fault_in({pages.begin + 2 * kHugePage - 1, 2 * kHugePage + 8193}, 0, choice);
  EXPECT_EQ(resident_bytes(pages.begin + 2 * kHugePage, 2 * kHugePage + 8192), 2 * kHugePage + 8192);
  EXPECT_EQ(resident_bytes(pages.begin, kHugePage), 0U);
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_EQ(fault_in({pages.begin, 0}, 0, choice), 0U);
  EXPECT_TRUE(unmap_pages(pages));
}

// A choice that has just seen a slow huge page. The mapping stays one area.
TEST(FaultIn, ReturnsTheBytesInSmallPages) {
  const Pages pages = map_pages(4 * kHugePage);
  ASSERT_NE(pages.begin, nullptr);
  if (::madvise(pages.begin, 4096, 23) != 0) GTEST_SKIP() << "the system is older than Linux 5.14";
  HugePageChoice choice;
  choice.record(true, std::chrono::seconds(100));
  EXPECT_GE(fault_in({pages.begin, pages.size}, 0, choice), kHugePage);
  EXPECT_EQ(resident_bytes(pages.begin, pages.size), pages.size);
  EXPECT_TRUE(unmap_pages(pages));
}

// The part ends inside of the page, but the memory does not.
TEST(FaultIn, ProvidesWholePages) {
  const Pages pages = map_pages(2 * kHugePage);
  ASSERT_NE(pages.begin, nullptr);
  if (::madvise(pages.begin, 4096, 23) != 0) GTEST_SKIP() << "the system is older than Linux 5.14";
  (void)::madvise(pages.begin, pages.size, MADV_DONTNEED);
  HugePageChoice choice;
  choice.record(true, std::chrono::seconds(100));
  EXPECT_EQ(fault_in({pages.begin, kHugePage / 2}, pages.size - kHugePage / 2, choice), kHugePage);
  EXPECT_EQ(resident_bytes(pages.begin, pages.size), kHugePage);
  EXPECT_EQ(fault_in({pages.begin + kHugePage / 2, kHugePage / 2}, kHugePage, choice), 0U);
  EXPECT_TRUE(unmap_pages(pages));
}

// Only whole pages, and only if the middle one is not there yet.
TEST(ProvideUntouched, ProvidesWholePagesOnce) {
  const Pages pages = map_pages(2 * kHugePage);
  ASSERT_NE(pages.begin, nullptr);
  if (::madvise(pages.begin, 4096, 23) != 0) GTEST_SKIP() << "the system is older than Linux 5.14";
  (void)::madvise(pages.begin, pages.size, MADV_NOHUGEPAGE);
  (void)::madvise(pages.begin, pages.size, MADV_DONTNEED);
  provide_untouched({pages.begin, 65535});
  EXPECT_EQ(resident_bytes(pages.begin, pages.size), 0U);
  provide_untouched({pages.begin + 1, 131072});
  EXPECT_EQ(resident_bytes(pages.begin, pages.size), 126976U);
  provide_untouched({pages.begin, 196608});  // its middle page is there
  EXPECT_EQ(resident_bytes(pages.begin, pages.size), 126976U);
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_TRUE(unmap_pages(pages));
}

TEST(FaultIn, KeepsBytes) {
  const Pages pages = map_pages(2 * kHugePage);
  ASSERT_NE(pages.begin, nullptr);
  std::fill_n(pages.begin, pages.size, std::byte{7});
  (void)fault_in({pages.begin, pages.size});
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{7}; }));
  EXPECT_TRUE(unmap_pages(pages));
}

}  // namespace
}  // namespace safetensors::os
