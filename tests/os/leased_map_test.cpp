// Tests LeasedMap: a map shows the bytes of the file, the system refuses a map that would not be safe, and other
// programs can open the file for writing only after the map has ended.
#include "os/leased_map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "os/descriptor.h"
#include "os/residency.h"
#include "support/plan_support.h"

namespace safetensors::os {
namespace {

using test::holds_once;
using test::make_cold;
using test::put;
using test::TemporaryDirectory;

class LeasedMapTest : public testing::Test {
 protected:
  void SetUp() override {
    put(path, text);
    file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file.valid());
    if (!detail::count_cached(file.get(), 0, kSize)) GTEST_SKIP() << "this kernel has no cachestat()";
    const Descriptor other(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (::fcntl(other.get(), F_SETLEASE, F_RDLCK) != 0) GTEST_SKIP() << "no leases here: " << std::strerror(errno);
  }
  // Returns a map of a range, which is nothing only if the system keeps refusing it. Reads the file before: a busy
  // system may have dropped its pages.
  [[nodiscard]] std::optional<LeasedMap> map_range(std::size_t offset, std::size_t size) const {
    std::optional<LeasedMap> map;
    char bytes[kSize];
    EXPECT_TRUE(holds_once([&] {
      EXPECT_EQ(::pread(file.get(), bytes, kSize, 0), static_cast<ssize_t>(kSize));
      std::optional<LeasedMap> made = LeasedMap::make(file.get(), offset, size);
      if (made) map.emplace(std::move(*made));
      return map.has_value();
    }));
    return map;
  }
  // Returns 0 or the error number of opening the file for writing without waiting.
  [[nodiscard]] int open_for_writing() const {
    const Descriptor writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    return writer.valid() ? 0 : errno;
  }

  static constexpr std::size_t kSize = 3 * 4096 + 100;
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  const std::string text = [] {
    std::string made(kSize, '\0');
    for (std::size_t i = 0; i < kSize; ++i) made[i] = static_cast<char>(i * 7 + i / 256);
    return made;
  }();
  Descriptor file;
};

TEST_F(LeasedMapTest, ShowsAnyRange) {
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096}, kSize - 1}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, kSize - offset}) {
      if (size > kSize - offset) continue;
      const std::optional<LeasedMap> map = map_range(offset, size);
      ASSERT_TRUE(map) << offset << ' ' << size;
      const std::string_view shown(reinterpret_cast<const char*>(map->bytes().data()), map->bytes().size());
      EXPECT_EQ(shown, std::string_view(text).substr(offset, size));
    }
  }
}

TEST_F(LeasedMapTest, RefusesRangesOutsideOfTheFile) {
  EXPECT_FALSE(LeasedMap::make(file.get(), 0, 0));
  EXPECT_FALSE(LeasedMap::make(file.get(), 0, kSize + 1));
  EXPECT_FALSE(LeasedMap::make(file.get(), kSize, 1));
  EXPECT_FALSE(LeasedMap::make(file.get(), ~std::uint64_t{0}, 2));
}

TEST_F(LeasedMapTest, RefusesAFileThatIsOpenForWriting) {
  const Descriptor writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writer.valid());
  EXPECT_FALSE(LeasedMap::make(file.get(), 0, kSize));
}

TEST_F(LeasedMapTest, RefusesPagesThatAreNotCached) {
  if (!make_cold(path)) GTEST_SKIP() << "this file system keeps its files in memory";
  EXPECT_TRUE(holds_once([&] { return make_cold(path) && !LeasedMap::make(file.get(), 0, kSize); }));
}

// Truncation opens the file for writing, too. The signal that the system sends to this process must not end it.
TEST_F(LeasedMapTest, KeepsWritersOutUntilItEnds) {
  {
    const std::optional<LeasedMap> map = map_range(0, kSize);
    ASSERT_TRUE(map);
    EXPECT_EQ(open_for_writing(), EWOULDBLOCK);
  }
  EXPECT_EQ(open_for_writing(), 0);
}

TEST_F(LeasedMapTest, MovesWithItsLease) {
  std::optional<LeasedMap> map = map_range(0, kSize);
  ASSERT_TRUE(map);
  std::optional<LeasedMap> moved(std::move(map));
  map.reset();
  EXPECT_EQ(open_for_writing(), EWOULDBLOCK);
  EXPECT_EQ(moved->bytes().size(), kSize);
  moved.reset();
  EXPECT_EQ(open_for_writing(), 0);
}

// A child that was forked meanwhile holds the same open file.
TEST_F(LeasedMapTest, EndsAlthoughAChildHoldsTheFile) {
  std::optional<LeasedMap> map = map_range(0, kSize);
  ASSERT_TRUE(map);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = test::start_child([&] {
    ::close(ends[1]);
    char byte = 0;
    return ::read(ends[0], &byte, 1) == 0;  // waits until the parent closes the other end
  });
  map.reset();
  EXPECT_EQ(open_for_writing(), 0);
  ::close(ends[0]), ::close(ends[1]);
  EXPECT_EQ(test::result_of(child), 0);
}

}  // namespace
}  // namespace safetensors::os
