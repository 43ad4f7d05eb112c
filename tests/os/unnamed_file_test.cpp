// Files without a name.
#include "os/command/command.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "os/file_status.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

TEST(UnnamedFile, IsReadableAndHasNoName) {
  const test::TemporaryDirectory directory;
  const Descriptor file = make_unnamed_file(directory.path());
  ASSERT_TRUE(file.valid());
  EXPECT_EQ(write_next(file.get(), "abc", 3), 3);
  FileStatus status;
  ASSERT_EQ(status_of(file.get(), status), 0);
  EXPECT_EQ(status.links, 0u);
  EXPECT_EQ(status.identity.size, 3u);
  EXPECT_EQ(status.permissions, 0600u);
  EXPECT_TRUE(directory.names().empty());
}

TEST(UnnamedFile, NeedsFolder) {
  const test::TemporaryDirectory directory;
  EXPECT_FALSE(make_unnamed_file(directory / "missing").valid());
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace safetensors::os
