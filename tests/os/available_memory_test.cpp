// The available memory: the texts of /proc and of control groups.
#include "os/available_memory.h"

#include <gtest/gtest.h>

namespace safetensors::os {
namespace {

using detail::available_of;
using detail::group_of;
using detail::room_of;

TEST(AvailableMemory, IsInMeminfo) {
  EXPECT_EQ(available_of("MemTotal:  24684416 kB\nMemFree: 7 kB\nMemAvailable:   23359 kB\nBuffers: 1 kB\n"),
            23359U << 10);
  EXPECT_EQ(available_of("MemAvailable: 0 kB\n"), 0U);
  EXPECT_EQ(available_of("MemAvailable:5"), 5U << 10);
  for (const char* text : {"", "\n", "MemAvailable:", "MemAvailable: kB\n", "Not MemAvailable: 5 kB\n",
                           "MemAvailable: 99999999999999999999 kB\n", "MemAvailable: 18014398509481985 kB\n"})
    EXPECT_EQ(available_of(text), std::nullopt) << text;
}

TEST(AvailableMemory, CountsPagesOfFilesInGroups) {
  EXPECT_EQ(room_of({"1000\n", "400\n", "anon 100\ninactive_file 200\nactive_file 50\n"}), 850U);
  EXPECT_EQ(room_of({"1000\n", "400\n", ""}), 600U);
  EXPECT_EQ(room_of({"1000\n", "400\n", "inactive_file 9000\nactive_file 9000\n"}), 1000U);
  EXPECT_EQ(room_of({"1000\n", "4000\n", "inactive_file 1\n"}), 0U);
}

TEST(AvailableMemory, HasNoBoundInGroupsWithoutLimit) {
  EXPECT_EQ(room_of({"max\n", "400\n", ""}), std::nullopt);
  EXPECT_EQ(room_of({"", "", ""}), std::nullopt);
  EXPECT_EQ(room_of({"1000\n", "", ""}), std::nullopt);
}

TEST(AvailableMemory, FindsGroup) {
  EXPECT_EQ(group_of("4:memory:/docker/abc\n1:name=systemd:/c:d\n0::/user.slice/s\n"), "/user.slice/s");
  EXPECT_EQ(group_of("0::/"), "/");
  for (const char* wrong : {"", "\n", ":", "0:", "memory", "1:memory\n"}) EXPECT_EQ(group_of(wrong), std::nullopt);
}

TEST(AvailableMemory, IsToldBySystem) {
  const std::optional<std::uint64_t> bytes = available_memory();
  if (!bytes) GTEST_SKIP() << "the system does not tell the available memory";
  EXPECT_LT(*bytes, std::uint64_t{1} << 60);
}

}  // namespace
}  // namespace safetensors::os
