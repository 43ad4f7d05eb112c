// A report names huge pages as a fallback if they are unavailable.
#include "os/huge_pages.h"

#include <gtest/gtest.h>
#include <safetensors/read_plan.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace
}  // namespace safetensors
