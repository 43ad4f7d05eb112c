// The memory that a plan provides before it reads into it.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "os/memory.h"
#include "support/file_support.h"
#include "support/plan_tuning.h"

namespace safetensors {
namespace {

using os::kHugePage;
constexpr std::size_t kInFront = kHugePage / 2 + 64;  // bytes of the memory before the result
constexpr std::size_t kResult = 4 * kHugePage - 64;   // ends at the end of a page

// Notes where each read ends in the memory, and how many bytes of the memory are there when it begins.
class WatchingSource final : public test::FilledSource {
 public:
  explicit WatchingSource(std::span<std::byte> memory)
      : FilledSource(R"({"t":{"dtype":"U8","shape":[8388544],"data_offsets":[0,8388544]}})", kResult, std::byte{7}),
        memory_(memory) {}
  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> to) const override {
    const std::uint64_t head = FilledSource::size().value() - kResult;
    if (offset >= head) seen.emplace_back(kInFront + static_cast<std::size_t>(offset - head) + to.size(), resident());
    return FilledSource::read_at(offset, to);
  }
  [[nodiscard]] std::size_t resident() const {
    std::vector<unsigned char> present(memory_.size() / os::page_size());
    EXPECT_EQ(::mincore(memory_.data(), memory_.size(), present.data()), 0);
    return os::page_size() *
           static_cast<std::size_t>(std::ranges::count_if(present, [](auto c) { return c % 2 == 1; }));
  }
  mutable std::vector<std::pair<std::size_t, std::size_t>> seen;

 private:
  const std::span<std::byte> memory_;
};

// If two threads provided one huge page at the same time, both would clear one. So each read provides the huge pages
// that begin in it, and nothing in front of them.
TEST(ProvidedPages, AreTheHugePagesThatBeginInARead) {
  const os::Pages pages = os::map_pages(6 * kHugePage);
  ASSERT_NE(pages.begin, nullptr);
  const auto source = std::make_shared<WatchingSource>(std::span(pages.begin, pages.size));
  (void)::madvise(pages.begin, pages.size, MADV_NOHUGEPAGE);
  os::provide_untouched({pages.begin, 1 << 16});
  if (source->resident() == 0) GTEST_SKIP() << "MADV_POPULATE_WRITE does nothing: before Linux 5.14, or under qemu";
  os::discard_pages({pages.begin, pages.size});
  (void)::mlock2(pages.begin, pages.size, MLOCK_ONFAULT);  // otherwise a page may be swapped out before it is counted

  const Result<File> file = File::from_source(source);
  ASSERT_TRUE(test::succeeds(file));
  const std::span result(pages.begin + kInFront, kResult);
  ReadPlan plan;
  ASSERT_TRUE(test::succeeds(plan.add(test::tensor(*file, "t"), {}, {.bytes = result})));
  const test::ChunkBytes chunks(kHugePage / 4);
  ASSERT_TRUE(test::succeeds(plan.execute({.threads = 1})));

  EXPECT_GE(source->seen.size(), 16U);
  const std::size_t page = os::page_size();
  std::size_t written = 0;  // the first page also has bytes that are not of the result, so it is not provided
  for (const auto& [end, resident] : source->seen) {
    const std::size_t provided = std::min((end + kHugePage - 1) / kHugePage * kHugePage, kInFront + kResult);
    EXPECT_EQ(resident, provided / page * page - kHugePage / 2 - page + std::exchange(written, page)) << end;
  }
  EXPECT_TRUE(std::ranges::all_of(result, [](std::byte byte) { return byte == std::byte{7}; }));
  os::unmap_pages(pages);
}

}  // namespace
}  // namespace safetensors
