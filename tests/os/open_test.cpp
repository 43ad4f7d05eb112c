// Opens real files with each flag.
#include "os/open.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "os/descriptor.h"
#include "os/file_status.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::contents;
using test::put;
using test::TemporaryDirectory;

class OpenAt : public testing::Test {
 protected:
  Descriptor open(const std::string& name, OpenFlags flags, std::uint32_t permissions = 0) const {
    return Descriptor(open_at(folder_.get(), name.c_str(), flags, permissions));
  }
  int error_of(const std::string& name, OpenFlags flags) const { return open(name, flags, 0600).valid() ? 0 : errno; }
  static int access_of(const Descriptor& file) { return ::fcntl(file.get(), F_GETFL) & O_ACCMODE; }

  const TemporaryDirectory directory_;
  const Descriptor folder_{open_at(kWorkingDirectory, directory_.path().c_str(), kOpenDirectory)};
};

TEST(OpenFlags, CombineAndCompare) {
  constexpr OpenFlags kBoth = OpenFlags::read | OpenFlags::direct;
  static_assert(has(kBoth, OpenFlags::read) && has(kBoth, OpenFlags::direct) && !has(kBoth, OpenFlags::write));
  static_assert(without(kBoth, OpenFlags::direct) == OpenFlags::read);
  static_assert(without(OpenFlags::read, OpenFlags::direct) == OpenFlags::read);
  static_assert((OpenFlags::none | OpenFlags::read) == OpenFlags::read);
}

TEST_F(OpenAt, GivesAccessAsAsked) {
  put(directory_ / "file", "x");
  EXPECT_EQ(access_of(open("file", OpenFlags::read)), O_RDONLY);
  EXPECT_EQ(access_of(open("file", OpenFlags::write)), O_WRONLY);
  EXPECT_EQ(access_of(open("file", OpenFlags::read | OpenFlags::write)), O_RDWR);
}

TEST_F(OpenAt, ClosesDescriptorsInNewPrograms) {
  put(directory_ / "file", "x");
  EXPECT_EQ(::fcntl(open("file", OpenFlags::read).get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(folder_.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(OpenAt, CreatesAndTruncates) {
  EXPECT_EQ(error_of("file", OpenFlags::write), ENOENT);
  const mode_t before = ::umask(0);
  EXPECT_TRUE(open("file", OpenFlags::write | OpenFlags::create, 0640).valid());
  ::umask(before);
  EXPECT_EQ(test::mode_of(directory_ / "file"), mode_t{0640});
  EXPECT_EQ(error_of("file", OpenFlags::write | OpenFlags::create | OpenFlags::only_new), EEXIST);
  put(directory_ / "file", "old");
  EXPECT_EQ(error_of("file", OpenFlags::write | OpenFlags::create), 0);
  EXPECT_EQ(contents(directory_ / "file"), "old");
  EXPECT_EQ(error_of("file", OpenFlags::write | OpenFlags::truncate), 0);
  EXPECT_EQ(contents(directory_ / "file"), "");
}

TEST_F(OpenAt, MakesFileWithoutName) {
  const Descriptor made = open(".", OpenFlags::read | OpenFlags::write | OpenFlags::unnamed, 0600);
  if (!made.valid() && errno == EOPNOTSUPP) GTEST_SKIP() << "this file system makes no file without a name";
  FileStatus status;
  ASSERT_EQ(status_of(made.get(), status), 0);
  EXPECT_TRUE(status.is_regular());
  EXPECT_EQ(status.links, 0u);
  EXPECT_TRUE(directory_.names().empty());
}

TEST_F(OpenAt, RefusesWrongKinds) {
  put(directory_ / "file", "x");
  ASSERT_EQ(::symlink("file", (directory_ / "link").c_str()), 0);
  EXPECT_EQ(error_of("file", kOpenDirectory), ENOTDIR);
  EXPECT_EQ(error_of("file", kOpenPathOfDirectory), ENOTDIR);
  EXPECT_EQ(error_of("link", OpenFlags::read | OpenFlags::no_follow), ELOOP);
  EXPECT_EQ(error_of("link", OpenFlags::read | kDistrust), ELOOP);
  EXPECT_EQ(error_of("link", OpenFlags::read), 0);
}

TEST_F(OpenAt, DoesNotWaitForFifo) {
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of("fifo", OpenFlags::read | kDistrust), 0);
  EXPECT_EQ(error_of("fifo", OpenFlags::write | OpenFlags::no_wait | OpenFlags::no_terminal), ENXIO);
}

TEST_F(OpenAt, OpensPathWithoutReading) {
  put(directory_ / "file", "x");
  const Descriptor path = open(".", kOpenPathOfDirectory);
  ASSERT_TRUE(path.valid());
  EXPECT_NE(::fcntl(path.get(), F_GETFL) & O_PATH, 0);
  EXPECT_TRUE(Descriptor(open_at(path.get(), "file", OpenFlags::read)).valid());
  char byte = 0;
  EXPECT_EQ(::read(path.get(), &byte, 1), -1);
}

TEST_F(OpenAt, AsksForDirectReads) {
  put(directory_ / "file", "x");
  const Descriptor file = open("file", OpenFlags::read | OpenFlags::direct);
  if (!file.valid() && errno == EINVAL) GTEST_SKIP() << "this file system has no direct reads";
  ASSERT_TRUE(file.valid());
  EXPECT_NE(::fcntl(file.get(), F_GETFL) & O_DIRECT, 0);
}

}  // namespace
}  // namespace safetensors::os
