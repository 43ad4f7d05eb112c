// Descriptors and permissions of real files, the process, and random bits.
#include "os/open.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string>

#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/process.h"
#include "os/system.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::contents;
using test::put;

class OpenAt : public testing::Test {
 protected:
  Descriptor open(const char* name, OpenFlags flags, std::uint32_t permissions = 0600) const {
    return Descriptor(open_at(folder_.get(), name, flags, permissions));
  }
  int error_of(const char* name, OpenFlags flags) const { return open(name, flags).valid() ? 0 : errno; }

  const test::TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file";
  const Descriptor folder_{open_at(kWorkingDirectory, directory_.path().c_str(), kOpenDirectory)};
};

TEST_F(OpenAt, ClosesDescriptorsInNewPrograms) {
  put(path_, "x");
  const Descriptor file = open("file", OpenFlags::read), path = open(".", kOpenPathOfDirectory);
  const Descriptor copy(duplicate(file.get()));
  for (const int each : {file.get(), path.get(), copy.get(), folder_.get()})
    EXPECT_EQ(::fcntl(each, F_GETFD), FD_CLOEXEC);
}

TEST_F(OpenAt, CreatesAndTruncates) {
  EXPECT_EQ(error_of("file", OpenFlags::write), ENOENT);
  const mode_t before = ::umask(0);
  EXPECT_TRUE(open("file", OpenFlags::write | OpenFlags::create, 0640).valid());
  ::umask(before);
  EXPECT_EQ(test::mode_of(path_), mode_t{0640});
  EXPECT_EQ(error_of("file", OpenFlags::write | OpenFlags::create | OpenFlags::only_new), EEXIST);
  put(path_, "old");
  EXPECT_EQ(error_of("file", OpenFlags::write | OpenFlags::create), 0);
  EXPECT_EQ(contents(path_), "old");
  EXPECT_EQ(error_of("file", OpenFlags::write | OpenFlags::truncate), 0);
  EXPECT_EQ(contents(path_), "");
}

TEST_F(OpenAt, DoesNotWaitForFifo) {
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of("fifo", OpenFlags::read | kDistrust), 0);
  EXPECT_EQ(error_of("fifo", OpenFlags::write | OpenFlags::no_wait), ENXIO);
}

TEST_F(OpenAt, TellsPermissionsOwnersAndLinks) {
  put(path_, "");
  ASSERT_EQ(::chmod(path_.c_str(), 04750), 0);
  ASSERT_EQ(::link(path_.c_str(), (directory_ / "second").c_str()), 0);
  struct stat expected;
  ASSERT_EQ(::stat(path_.c_str(), &expected), 0);
  FileStatus status;
  ASSERT_EQ(status_at(folder_.get(), "file", Symlinks::keep, status), 0);
  EXPECT_EQ(status.permissions, 04750u);
  EXPECT_EQ(status.user, expected.st_uid);
  EXPECT_EQ(status.group, expected.st_gid);
  EXPECT_EQ(status.links, 2u);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 01700), 0);
  ASSERT_EQ(status_of(folder_.get(), status), 0);
  EXPECT_EQ(status.permissions & (FileStatus::kSticky | FileStatus::kOwner), 01700u);
}

TEST(ProcessId, DiffersInForkedChild) {
  const std::uint64_t parent = process_id();
  EXPECT_EQ(parent, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(test::in_child([&] { return process_id() != parent; }), 0);
}

TEST(RandomBits, AreNotRepeated) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_bits());
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace safetensors::os
