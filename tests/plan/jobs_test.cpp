// The size of jobs. A plan can be cancelled between two jobs only, so no job may take long, even if it needs only few
// of the bytes that it reads.
#include "plan/jobs.h"

#include <gtest/gtest.h>
#include <safetensors/read_plan.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "support/file_support.h"

namespace safetensors {
namespace {

// A file whose tensor is a hole. Counts the bytes that were read of it.
class Hole final : public test::FilledSource {
 public:
  using FilledSource::FilledSource;
  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const override {
    read += destination.size();
    return FilledSource::read_at(offset, destination);
  }
  mutable std::atomic<std::uint64_t> read{0};
};

TEST(Jobs, ReadAtMost40MiBOfTinyPieces) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 30;
  for (const std::uint64_t columns : {64ULL, 4096ULL, 65536ULL, 1ULL << 20}) {
    const std::string shape = "[" + std::to_string(kBytes / columns) + "," + std::to_string(columns) + "]";
    const auto hole = std::make_shared<Hole>(test::one_header("U8", shape, kBytes), kBytes);
    Result<File> file = File::from_source(hole);
    ASSERT_TRUE(test::succeeds(file));
    ReadPlan plan;
    ASSERT_TRUE(test::succeeds(plan.add(
        test::tensor(*file, "t"), Slice{DimSlice::range(std::nullopt, std::nullopt, 2), DimSlice::range(0, 16)})));
    std::uint64_t before = hole->read;
    std::uint64_t most = 0;
    ReadOptions options{.threads = 1};
    options.progress = [&](std::uint64_t, std::uint64_t) {
      most = std::max(most, hole->read - before);
      before = hole->read;
      return true;
    };
    ASSERT_TRUE(test::succeeds(plan.execute(options)));
    EXPECT_LE(most, 40U << 20) << columns << " columns";
  }
}

}  // namespace
}  // namespace safetensors
