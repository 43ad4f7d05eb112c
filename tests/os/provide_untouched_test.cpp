// Tests which pages provide_untouched() provides.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "os/memory.h"

namespace safetensors {
namespace {

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
