// Atomic files on file systems of Linux that a test must mount or find.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "support/atomic_file_support.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

TEST_F(AtomicFileTest, RefusesLinksIntoSysfs) {
  struct statfs mount;
  constexpr std::uint32_t kSysfs = 0x62656572;
  if (::statfs("/sys", &mount) != 0 || static_cast<std::uint32_t>(mount.f_type) != kSysfs)
    GTEST_SKIP() << "/sys is not a sysfs";
  // A link to a file, through another link, and to a file that does not exist.
  ASSERT_EQ(::symlink("/sys/kernel", (directory / "folder").c_str()), 0);
  for (const char* const target : {"/sys/kernel/uevent_seqnum", "folder/uevent_seqnum", "/sys/kernel/no_such_file"}) {
    ASSERT_EQ(::symlink(target, path.c_str()), 0);
    const Error error = error_of(replace(path, "new", {.links = io::Links::replace}));
    EXPECT_EQ(error.code, Errc::not_regular_file) << target;
    EXPECT_EQ(error.message, "cannot replace a symlink into /proc, /sys or their like, only a regular file");
    EXPECT_TRUE(std::filesystem::is_symlink(path));
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
}

TEST_F(AtomicFileTest, KeepsOldFileIfDiskIsFull) {
  const std::string mount_point = directory / "small";
  ASSERT_EQ(::mkdir(mount_point.c_str(), 0755), 0);
  if (::mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "mounting a tmpfs needs root: " << std::strerror(errno);
  const std::string target = mount_point + "/model";
  put(target, "old");
  for (const Durability durability : {Durability::full, Durability::file, Durability::none}) {
    const Error error = error_of(replace(target, std::string(std::size_t{2} << 20, 'x'), {.durability = durability}));
    EXPECT_EQ(error.code, Errc::write_failed);
    EXPECT_EQ(error.os_error, ENOSPC);
    EXPECT_EQ(contents(target), "old");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(mount_point), std::filesystem::directory_iterator()),
              1);
  }
  EXPECT_EQ(::umount2(mount_point.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace safetensors::test
