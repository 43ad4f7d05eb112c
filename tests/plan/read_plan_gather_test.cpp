// Short pieces of slices, gathered from the page cache: by reads, or from maps under a read lease.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <string>

#include "os/descriptor.h"
#include "os/leased_map.h"
#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace safetensors {
namespace {

using namespace test;

class PlanGather : public testing::Test {
 protected:
  void SetUp() override {
    put(path, bytes);
    const os::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    maps = os::LeasedMap::make(file.get(), 0, bytes.size()).has_value();
  }
  // Reads columns [1000, 1064) of every row and returns the report.
  ReadReport read_columns(Access access, const ReadOptions& options = {.threads = 1},
                          std::uint64_t chunk_bytes = 64 << 10) {
    Result<File> file = File::open(path, {.access = access});
    EXPECT_TRUE(succeeds(file));
    ReadPlan plan;
    EXPECT_TRUE(succeeds(plan.add(tensor(*file, "t"), Slice(":,1000:1064"))));
    EXPECT_TRUE(succeeds(plan.add(tensor(*file, "t"), Slice("::-1,1000:1064"))));
    const ChunkBytes chunks(chunk_bytes);
    const Result<ReadResult> result = plan.execute(options);
    EXPECT_TRUE(succeeds(result));
    if (!result) return {};
    EXPECT_TRUE(data_of(result->arrays[0]) == columns(false));
    EXPECT_TRUE(data_of(result->arrays[1]) == columns(true));
    return result->report;
  }
  [[nodiscard]] std::string columns(bool reversed) const {
    std::string expected;
    for (std::size_t i = 0; i < kRows; ++i)
      expected += text.substr((reversed ? kRows - 1 - i : i) * kColumns + 1000, 64);
    return expected;
  }

  static constexpr std::size_t kRows = 8192;
  static constexpr std::size_t kColumns = 2048;
  const std::string text = pattern(kRows * kColumns);
  const std::string bytes = file_of({{.name = "t", .dtype = Dtype::U8, .shape = {kRows, kColumns}, .bytes = text}}, 0);
  const TemporaryDirectory directory;
  const std::string path = directory / "t.safetensors";
  bool maps = false;  // the system allows such maps here
};

TEST_F(PlanGather, TriesMapsIfTheSystemAllowsThem) {
  if (!maps) GTEST_SKIP() << "this file system has no leases, or this kernel has no cachestat()";
  EXPECT_TRUE(holds_once([&] {
    const std::uint64_t mapped = read_columns(Access::automatic).bytes_mapped;
    EXPECT_EQ(mapped % 64, 0U);                    // whole pieces
    EXPECT_LE(mapped, 2 * kRows * 64 - 128 * 64);  // the first 128 pieces are read, to compare both ways
    return mapped > 0;
  }));
}

TEST_F(PlanGather, GivesTheSameBytesWithManyThreads) {
  for (int i = 0; i < 5; ++i) read_columns(Access::automatic, {.threads = 4}, 32 << 10);
}

TEST_F(PlanGather, NeverMapsWithAccessRead) {
  EXPECT_EQ(read_columns(Access::read).bytes_mapped, 0U);
}

TEST_F(PlanGather, ReadsAFileThatIsOpenForWriting) {
  const os::Descriptor writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writer.valid());
  EXPECT_EQ(read_columns(Access::automatic).bytes_mapped, 0U);
}

TEST_F(PlanGather, NeverMapsWhatIsNotInTheCache) {
  const test::AssumeUncached uncached;
  EXPECT_EQ(read_columns(Access::automatic).bytes_mapped, 0U);
}

TEST_F(PlanGather, LeavesTheFileFree) {
  read_columns(Access::automatic);
  const os::Descriptor writer(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  EXPECT_TRUE(writer.valid());
}

}  // namespace
}  // namespace safetensors
