// Pages of views: prefault() brings them into memory before use, and release() gives them back.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <unistd.h>

#include "os/thread_usage.h"
#include "support/emulation.h"
#include "support/file_support.h"
#include "support/sanitizers.h"

namespace safetensors {
namespace {

using test::error_of;
using test::one_tensor;
using test::put;
using test::succeeds;
using test::TemporaryDirectory;
using test::tensor;

constexpr std::size_t kBytes = std::size_t{3} << 20;

std::uint64_t sum_of_pages(const Array& array) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < array.nbytes(); i += 4096) sum += static_cast<std::uint64_t>(array.bytes()[i]);
  return sum;
}

// Touches every page. Returns the number of page faults.
std::uint64_t faults_of(const Array& array) {
  os::ThreadClock clock;
  volatile const std::uint64_t sum = sum_of_pages(array);
  (void)sum;
  return clock.lap().page_faults;
}

class ViewPages : public ::testing::Test {
 protected:
  Array view(Map map = Map::shared) {
    put(path, one_tensor("U8", "[" + std::to_string(kBytes) + "]", kBytes));
    const Result<File> file = File::open(path, {.access = Access::map});
    EXPECT_TRUE(succeeds(file));
    Result<Array> array = tensor(*file, "t").view(map);
    EXPECT_TRUE(succeeds(array));
    return *std::move(array);
  }
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/model.safetensors";
};

TEST_F(ViewPages, LoadsAllPagesOnPrefault) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's own memory of these pages faults, too";
  if (test::ignores_advice()) GTEST_SKIP() << test::kIgnoresAdvice;
  const Array array = view();
  ASSERT_TRUE(succeeds(array.prefault()));
  EXPECT_LE(faults_of(array), 2U);
}

TEST_F(ViewPages, ClipsPrefaultToArray) {
  const Array array = view();
  EXPECT_TRUE(succeeds(array.prefault(kBytes - 1, 1000)));
  EXPECT_TRUE(succeeds(array.prefault(kBytes, 1)));
  EXPECT_TRUE(succeeds(array.prefault(~std::uint64_t{0}, ~std::uint64_t{0})));
  EXPECT_TRUE(succeeds(array.prefault(1 << 20, ~std::uint64_t{0})));
}

// The system reports the same error for a broken disk. So the error is not file_truncated.
TEST_F(ViewPages, ReportsShorterFileOnPrefault) {
  if (test::ignores_advice()) GTEST_SKIP() << test::kIgnoresAdvice;
  const Array array = view();
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  const Error error = error_of(array.prefault());
  EXPECT_EQ(error.code, Errc::read_failed);
  EXPECT_EQ(error.message,
            "cannot bring 3145728 mapped bytes into memory: the file became shorter, or its device failed");
}

TEST_F(ViewPages, IgnoresPrefaultOfOwnedMemory) {
  std::array<std::byte, 8> memory{};
  const Array array(Dtype::U8, {8}, memory, nullptr, MemoryKind::owned);
  EXPECT_TRUE(succeeds(array.prefault()));
}

TEST_F(ViewPages, ReloadsPagesAfterRelease) {
  const Array array = view();
  const std::uint64_t before = sum_of_pages(array);
  ASSERT_TRUE(succeeds(array.release()));
  EXPECT_GE(faults_of(array), 2U);
  EXPECT_EQ(sum_of_pages(array), before);
}

TEST_F(ViewPages, RefusesReleaseOfPrivateMap) {
  Array array = view(Map::copy_on_write);
  array.mutable_bytes().value()[4096] = std::byte{77};
  const Error error = error_of(array.release());
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(error.message, "cannot release pages: the map is private, and changes to it would be lost");
  EXPECT_EQ(array.bytes()[4096], std::byte{77});
}

TEST_F(ViewPages, RefusesReleaseOfOwnedMemory) {
  std::array<std::byte, 8> memory{};
  const Array array(Dtype::U8, {8}, memory, nullptr, MemoryKind::owned);
  const Error error = error_of(array.release());
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(error.message, "cannot release pages: the array is not file-mapped");
}

}  // namespace
}  // namespace safetensors
