// The share of a file in the page cache, as the library reports it. Each test runs with both system calls that can
// report it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <functional>

#include "os/descriptor.h"
#include "os/residency.h"
#include "support/plan_support.h"

namespace safetensors::os {
namespace {

using test::holds_once;
using test::make_cold;
using test::put;
using test::TemporaryDirectory;

using Ask = std::optional<double> (*)(int, std::uint64_t, std::uint64_t);

class Residency : public testing::TestWithParam<std::pair<const char*, Ask>> {
 protected:
  // Returns the cached share of [offset, offset + size).
  [[nodiscard]] std::optional<double> share(std::uint64_t offset, std::uint64_t size) const {
    const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(descriptor.valid());
    return GetParam().second(descriptor.get(), offset, size);
  }
  void SetUp() override {
    put(path, std::string(kSize, 'x'));
    if (!share(0, kSize)) GTEST_SKIP() << "this kernel does not tell";
  }

  void read_all() const {
    const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string bytes(kSize, '\0');
    EXPECT_EQ(::pread(descriptor.get(), bytes.data(), kSize, 0), static_cast<ssize_t>(kSize));
  }

  // Returns whether reads of a byte that must not wait mostly return the bytes of a cold file. A virtual machine does
  // this while its host has no processor to spare: the host then completes a read before the machine goes on. Probes of
  // such a machine cannot tell what is cached.
  [[nodiscard]] bool probes_see_cold_bytes() const {
    const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    int seen = 0;
    for (off_t offset = 0; make_cold(path) && offset < off_t{16} << 20; offset += off_t{4} << 20) {
      char byte = 0;
      const iovec buffer{&byte, 1};
      seen += ::preadv2(descriptor.get(), &buffer, 1, offset, RWF_NOWAIT) == 1 ? 1 : 0;
    }
    return seen >= 2;
  }
  // Expects that `holds` returns true at least once, unless the machine makes it impossible. Call it last in a test.
  template <class F>
  void expect_once(const F& holds) const {
    int impossible = 0;
    const bool held = holds_once([&] {
      if (holds()) return true;
      impossible += GetParam().second != &detail::count_cached && probes_see_cold_bytes() ? 1 : 0;
      return false;
    });
    if (!held && impossible >= 5) GTEST_SKIP() << "this busy machine completes reads before a probe returns";
    EXPECT_TRUE(held);
  }

  static constexpr std::size_t kSize = (20 << 20) + 123;
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
};

TEST_P(Residency, IsOneAfterRead) {
  const std::pair<std::size_t, std::size_t> ranges[] = {{0, kSize}, {4095, 2}, {kSize - 1, 1}, {5, 0}};
  for (const auto& range : ranges)
    EXPECT_TRUE(holds_once([&] {
      read_all();
      return share(range.first, range.second) == 1.0;
    })) << range.first;
}

// A probe is a read, so it can make the system read ahead.
TEST_P(Residency, IsLowIfNotCached) {
  if (!make_cold(path)) GTEST_SKIP() << "this file system keeps its files in memory";
  const double most = GetParam().second == &detail::count_cached ? 0.0 : 0.5;
  expect_once([&] { return make_cold(path) && share(8 << 20, 4 << 20) <= most; });
}

// A probe makes the system read ahead, often 128 KiB. Later probes must choose other pages. The file ends with a hole,
// so twenty probes read only a small share of it.
TEST_P(Residency, StaysLowHoweverOftenItIsAsked) {
  if (!make_cold(path)) GTEST_SKIP() << "this file system keeps its files in memory";
  constexpr std::uint64_t kRange = 32 << 20;
  ASSERT_EQ(::truncate(path.c_str(), kRange), 0);
  expect_once([&] {
    if (!make_cold(path)) return false;
    for (int i = 0; i < 4; ++i) {
      (void)share(0, kRange);
      ::usleep(20'000);  // time for the reads that the system has begun
    }
    return share(0, kRange) <= 0.5;
  });
}

TEST_P(Residency, IsBetweenIfPartIsCached) {
  if (!make_cold(path)) GTEST_SKIP() << "this file system keeps its files in memory";
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_RANDOM), 0);  // the system reads nothing ahead
  std::string half(kSize / 2, '\0');
  expect_once([&] {
    if (!make_cold(path)) return false;
    EXPECT_EQ(::pread(descriptor.get(), half.data(), half.size(), 0), static_cast<ssize_t>(half.size()));
    const std::optional<double> all = GetParam().second(descriptor.get(), 0, kSize);
    return share(0, 1 << 20) == 1.0 && all >= 0.2 && all <= 0.8;
  });
}

TEST_P(Residency, IsUnknownForBadDescriptor) {
  EXPECT_EQ(GetParam().second(-1, 0, 100), std::nullopt);
  EXPECT_EQ(GetParam().second(1 << 20, 0, 100), std::nullopt);
  const Descriptor writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_TRUE(GetParam().second != &detail::probe_cached || !GetParam().second(writer.get(), 0, 100));
}

INSTANTIATE_TEST_SUITE_P(Ways, Residency,
                         testing::Values(std::pair<const char*, Ask>{"cached_share", &cached_share},
                                         std::pair<const char*, Ask>{"count_cached", &detail::count_cached},
                                         std::pair<const char*, Ask>{"probe_cached", &detail::probe_cached}),
                         [](const auto& way) { return std::string(way.param.first); });

TEST(LargeFileResidency, IsNearZeroForHole) {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  put(path, "");
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 36), 0);  // a hole: nothing is cached
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::optional<double> share = cached_share(descriptor.get(), 0, std::uint64_t{1} << 36);
  if (!share) GTEST_SKIP() << "this kernel does not tell";
  EXPECT_LE(*share, 0.1);
}

// As in a container: the pages belong to the file below.
TEST(OverlayResidency, CountsPagesOfFileBelow) {
  const TemporaryDirectory directory;
  for (const char* const name : {"lower", "upper", "work", "merged"})
    ASSERT_EQ(::mkdir((directory / name).c_str(), 0755), 0);
  constexpr std::size_t kSize = 9'000'000;
  put(directory / "lower/file", std::string(kSize, 'x'));
  const std::string merged = directory / "merged";
  const std::string options =
      "lowerdir=" + (directory / "lower") + ",upperdir=" + (directory / "upper") + ",workdir=" + (directory / "work");
  if (::mount("overlay", merged.c_str(), "overlay", 0, options.c_str()) != 0)
    GTEST_SKIP() << "mounting an overlay needs root, and a file system below that can carry one";
  {
    const Descriptor file(::open((merged + "/file").c_str(), O_RDONLY | O_CLOEXEC));
    std::string bytes(kSize, '\0');
    EXPECT_TRUE(holds_once([&] {
      EXPECT_EQ(::pread(file.get(), bytes.data(), kSize, 0), static_cast<ssize_t>(kSize));
      return cached_share(file.get(), 5000, kSize - 5000) == 1.0;
    }));
    EXPECT_TRUE(
        holds_once([&] { return make_cold(merged + "/file") && cached_share(file.get(), 1, kSize - 1) == 0.0; }));
  }
  EXPECT_EQ(::umount2(merged.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace safetensors::os
