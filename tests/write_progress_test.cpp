#include <gtest/gtest.h>
#include <safetensors/writer.h>

#include "io_support.h"

namespace safetensors {
namespace {

using test::contents;
using test::put;
using test::succeeds;
using test::TemporaryDirectory;

using Reports = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

TEST(WriteProgress, IsReportedUpToTheSizeOfTheFile) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> large((std::size_t{40} << 20) + 3);
  const std::uint64_t shape[] = {large.size()};
  const TensorData tensors[] = {{"large", Dtype::U8, shape, large}};
  Reports reports;
  WriteOptions options{.durability = Durability::none};
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    reports.emplace_back(done, total);
    return true;
  };
  ASSERT_TRUE(succeeds(write_file(directory / "t", tensors, std::nullopt, options)));
  const std::uint64_t size = contents(directory / "t").size();
  ASSERT_GE(reports.size(), 3U);
  std::uint64_t before = 0;
  for (const auto& [done, total] : reports) {
    EXPECT_EQ(total, size);
    EXPECT_GT(done, before);
    before = done;
  }
  EXPECT_EQ(before, size);
}

TEST(WriteProgress, ThatSaysFalseLeavesTheOldFileAndNothingElse) {
  const TemporaryDirectory directory;
  put(directory / "t", "old");
  const std::vector<std::byte> large(std::size_t{40} << 20);
  const std::uint64_t shape[] = {large.size()};
  const TensorData tensors[] = {{"large", Dtype::U8, shape, large}};
  for (const int stop_at : {1, 2, 3}) {
    int reports = 0;
    WriteOptions options{.durability = Durability::none};
    options.progress = [&](std::uint64_t, std::uint64_t) { return ++reports < stop_at; };
    const Status status = write_file(directory / "t", tensors, std::nullopt, options);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::cancelled);
    EXPECT_EQ(reports, stop_at);
    EXPECT_EQ(contents(directory / "t"), "old");
    EXPECT_EQ(directory.names(), std::vector<std::string>{"t"});
  }
}

}  // namespace
}  // namespace safetensors
