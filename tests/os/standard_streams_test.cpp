// Pipes, files and closed descriptors as standard streams, and files without a name.
#include "os/command/command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/open.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

class Pipe : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reading_ = Descriptor(ends[0]);
    writing_ = Descriptor(ends[1]);
  }
  Descriptor reading_, writing_;
};

TEST_F(Pipe, MovesBytes) {
  char bytes[8];
  EXPECT_EQ(wait_to_read(reading_.get(), 0), 0);
  EXPECT_EQ(write_next(writing_.get(), "abc", 3), 3);
  EXPECT_EQ(wait_to_read(reading_.get(), 60'000), 1);
  EXPECT_EQ(read_next(reading_.get(), bytes, sizeof bytes), 3);
  EXPECT_EQ(std::string(bytes, 3), "abc");
  writing_.reset();
  EXPECT_EQ(wait_to_read(reading_.get(), 60'000), 1);
  EXPECT_EQ(read_next(reading_.get(), bytes, sizeof bytes), 0);
}

TEST_F(Pipe, HasNoOffsets) {
  EXPECT_FALSE(has_offsets(reading_.get()));
  EXPECT_FALSE(is_terminal(reading_.get()));
  EXPECT_EQ(terminal_columns(reading_.get()), 0u);
}

TEST(StandardStreams, FileHasOffsets) {
  const test::TemporaryDirectory directory;
  test::put(directory / "file", "12345");
  const Descriptor file(open_at(kWorkingDirectory, (directory / "file").c_str(), OpenFlags::read));
  char bytes[2];
  EXPECT_TRUE(has_offsets(file.get()));
  EXPECT_EQ(read_next(file.get(), bytes, sizeof bytes), 2);
  EXPECT_EQ(read_next(file.get(), bytes, sizeof bytes), 2);
  EXPECT_EQ(std::string(bytes, 2), "34");
  EXPECT_FALSE(has_offsets(-1));
}

TEST(StandardStreams, FillsClosedDescriptorsOnly) {
  EXPECT_EQ(test::in_child([] {
              const bool output_open = ::fcntl(kStandardOutput, F_GETFD) != -1;
              const int output_flags = ::fcntl(kStandardOutput, F_GETFL);
              ::close(kStandardInput);
              ::close(kStandardError);
              fill_standard_descriptors();
              char byte = 0;
              return read_next(kStandardInput, &byte, 1) == -1 && errno == EBADF &&
                     write_next(kStandardError, "x", 1) == -1 && errno == EBADF &&
                     (!output_open || ::fcntl(kStandardOutput, F_GETFL) == output_flags);
            }),
            0);
}

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
