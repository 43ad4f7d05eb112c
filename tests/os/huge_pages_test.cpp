// Tests that a report names huge pages as a fallback if they are unavailable, and which pages provide_untouched()
// provides.
#include <gtest/gtest.h>
#include <safetensors/read_plan.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "os/memory.h"
#include "support/file_support.h"

namespace safetensors {
namespace {

using os::detail::allows_huge_pages;

TEST(HugePages, FollowSettingOfSizeFirst) {
  EXPECT_TRUE(allows_huge_pages("[always] madvise never\n", ""));
  EXPECT_TRUE(allows_huge_pages("always [madvise] never\n", ""));
  EXPECT_FALSE(allows_huge_pages("always madvise [never]\n", ""));
  EXPECT_TRUE(allows_huge_pages("always [madvise] never\n", "always [inherit] madvise never\n"));
  EXPECT_FALSE(allows_huge_pages("always madvise [never]\n", "always [inherit] madvise never\n"));
  EXPECT_TRUE(allows_huge_pages("always madvise [never]\n", "always inherit [madvise] never\n"));
  EXPECT_FALSE(allows_huge_pages("[always] madvise never\n", "always inherit madvise [never]\n"));
  for (const char* text : {"", "\n", "[", "]", "][", "never", "[]"}) EXPECT_TRUE(allows_huge_pages(text, text)) << text;
}

// The fallbacks of a load of 4 MiB.
std::vector<std::string> fallbacks() {
  const std::string bytes = test::one_tensor("U8", "[4194304]", 4194304);
  const Result<File> file = File::from_memory(std::as_bytes(std::span(bytes)), nullptr);
  ReadPlan plan;
  if (!file || !plan.add(test::tensor(*file, "t"))) return {"no plan"};
  const Result<ReadResult> result = plan.execute({.threads = 1});
  if (!result) return {result.error().message};
  return result->report.fallbacks;
}

const std::vector<std::string> kSmallPages = {"memory is in small pages: the system refuses huge ones"};

TEST(HugePages, ReportFallbackIfRefused) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) ::_exit(2);
    const bool told = !os::map_pages(os::kHugePage).huge && fallbacks() == kSmallPages;
    ::_exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "huge pages cannot be switched off here";
  EXPECT_EQ(status, 0);
}

TEST(HugePages, ReportNothingIfGranted) {
  const os::Pages pages = os::map_pages(os::kHugePage);
  os::unmap_pages(pages);
  if (!pages.huge) GTEST_SKIP() << "no huge pages here";
  EXPECT_EQ(fallbacks(), std::vector<std::string>());
}

std::size_t resident_bytes(const os::Pages& pages) {
  const std::size_t page = os::page_size();
  std::vector<unsigned char> present(pages.size / page);
  if (::mincore(pages.begin, pages.size, present.data()) != 0) return 0;
  return page * static_cast<std::size_t>(std::ranges::count_if(present, [](unsigned char one) { return one & 1; }));
}

TEST(ProvideUntouched, ProvidesWholePagesOnce) {
  const os::Pages pages = os::map_pages(2 * os::kHugePage);
  ASSERT_NE(pages.begin, nullptr);
  const std::size_t page = os::page_size();
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
  if (::madvise(pages.begin, page, kPopulateWrite) != 0) GTEST_SKIP() << "the system is older than Linux 5.14";
  (void)::madvise(pages.begin, pages.size, MADV_NOHUGEPAGE);
  (void)::madvise(pages.begin, pages.size, MADV_DONTNEED);
  os::provide_untouched({pages.begin, 65535});
  EXPECT_EQ(resident_bytes(pages), 0U);
  os::provide_untouched({pages.begin + 1, 16 * page + 65536});  // all but the first page, and the last one
  EXPECT_EQ(resident_bytes(pages), (16 * page + 65536) / page * page - page);
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{0}; }));
  std::fill_n(pages.begin, pages.size, std::byte{7});
  os::provide_untouched({pages.begin, pages.size});  // its middle page is there
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{7}; }));
  os::unmap_pages(pages);
}

}  // namespace
}  // namespace safetensors
