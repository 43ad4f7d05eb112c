// Kinds, identities and permissions of real files.
#include "os/file_status.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "os/descriptor.h"
#include "os/open.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::put;
using test::TemporaryDirectory;

class FileStatusTest : public testing::Test {
 protected:
  FileStatus followed(const std::string& path) const {
    FileStatus status;
    EXPECT_EQ(status_of_path(path.c_str(), Symlinks::follow, status), 0) << path;
    return status;
  }
  FileStatus kept(const std::string& path) const {
    FileStatus status;
    EXPECT_EQ(status_of_path(path.c_str(), Symlinks::keep, status), 0) << path;
    return status;
  }
  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file";
};

TEST_F(FileStatusTest, TellsKinds) {
  put(path_, "x");
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = directory_ / "socket";
  ASSERT_LT(name.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);

  EXPECT_EQ(followed(path_).kind, FileKind::regular);
  EXPECT_TRUE(followed(path_).is_regular());
  EXPECT_EQ(followed(directory_.path()).kind, FileKind::directory);
  EXPECT_TRUE(followed(directory_.path()).is_directory());
  EXPECT_EQ(followed(directory_ / "fifo").kind, FileKind::fifo);
  EXPECT_EQ(followed(name).kind, FileKind::socket);
  EXPECT_EQ(followed("/dev/null").kind, FileKind::character_device);
}

TEST_F(FileStatusTest, DescribesKinds) {
  EXPECT_EQ(describe_irregular(FileKind::regular), nullptr);
  EXPECT_STREQ(describe_irregular(FileKind::directory), "a directory");
  EXPECT_STREQ(describe_irregular(FileKind::symlink), "a symbolic link");
  EXPECT_STREQ(describe_irregular(FileKind::fifo), "a FIFO");
  EXPECT_STREQ(describe_irregular(FileKind::character_device), "a character device");
  EXPECT_STREQ(describe_irregular(FileKind::block_device), "a block device");
  EXPECT_STREQ(describe_irregular(FileKind::socket), "a socket");
  EXPECT_STREQ(describe_irregular(FileKind::unknown), "something unknown");
}

TEST_F(FileStatusTest, FollowsOrKeepsSymlinks) {
  put(path_, "12345");
  ASSERT_EQ(::symlink("file", (directory_ / "link").c_str()), 0);
  EXPECT_TRUE(followed(directory_ / "link").is_regular());
  EXPECT_EQ(followed(directory_ / "link").identity, followed(path_).identity);
  EXPECT_TRUE(kept(directory_ / "link").is_symlink());
  EXPECT_EQ(kept(directory_ / "link").identity.size, 4u);

  const Descriptor folder(open_at(kWorkingDirectory, directory_.path().c_str(), kOpenDirectory));
  FileStatus status;
  ASSERT_EQ(status_at(folder.get(), "link", Symlinks::keep, status), 0);
  EXPECT_TRUE(status.is_symlink());
  ASSERT_EQ(status_at(folder.get(), "link", Symlinks::follow, status), 0);
  EXPECT_EQ(status.identity, followed(path_).identity);
}

TEST_F(FileStatusTest, TellsPermissionsOwnersAndLinks) {
  put(path_, "");
  ASSERT_EQ(::chmod(path_.c_str(), 04750), 0);
  ASSERT_EQ(::link(path_.c_str(), (directory_ / "second").c_str()), 0);
  struct stat expected;
  ASSERT_EQ(::stat(path_.c_str(), &expected), 0);
  const FileStatus status = followed(path_);
  EXPECT_EQ(status.permissions, 04750u);
  EXPECT_EQ(status.permissions & FileStatus::kOwner, 0700u);
  EXPECT_EQ(status.user, expected.st_uid);
  EXPECT_EQ(status.group, expected.st_gid);
  EXPECT_EQ(status.links, 2u);
  EXPECT_EQ(status.block_size, static_cast<std::uint64_t>(expected.st_blksize));
  EXPECT_EQ(status.modified_seconds, expected.st_mtim.tv_sec);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 01700), 0);
  EXPECT_NE(followed(directory_.path()).permissions & FileStatus::kSticky, 0u);
}

TEST_F(FileStatusTest, TellsOpenFileWithoutName) {
  put(path_, "123");
  const Descriptor file(open_at(kWorkingDirectory, path_.c_str(), OpenFlags::read));
  const FileIdentity before = followed(path_).identity;
  FileStatus status;
  ASSERT_EQ(status_of(file.get(), status), 0);
  EXPECT_EQ(status.identity, before);
  EXPECT_EQ(status.identity.size, 3u);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  ASSERT_EQ(status_of(file.get(), status), 0);
  EXPECT_EQ(status.links, 0u);
  EXPECT_TRUE(status.identity.same_file(before));
}

TEST_F(FileStatusTest, SetsErrnoAndKeepsStatusAfterError) {
  ASSERT_EQ(::symlink("nothing", (directory_ / "dangling").c_str()), 0);
  const Descriptor folder(open_at(kWorkingDirectory, directory_.path().c_str(), kOpenDirectory));
  FileStatus status;
  status.links = 17;
  const auto error = [&](int result) { return result == -1 && status.links == 17 ? errno : 0; };
  EXPECT_EQ(error(status_of_path((directory_ / "missing").c_str(), Symlinks::keep, status)), ENOENT);
  EXPECT_EQ(error(status_of_path((directory_ / "dangling").c_str(), Symlinks::follow, status)), ENOENT);
  EXPECT_EQ(error(status_at(folder.get(), "missing", Symlinks::follow, status)), ENOENT);
  EXPECT_EQ(error(status_of(-1, status)), EBADF);
  EXPECT_TRUE(kept(directory_ / "dangling").is_symlink());
}

}  // namespace
}  // namespace safetensors::os
