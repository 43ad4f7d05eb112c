// FolderLock: one writer at a time, and no wait for a lock that is gone.
#include "io/temporary.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "os/descriptor.h"
#include "os/directory.h"
#include "support/file_support.h"

namespace safetensors::test {
namespace {

class FolderLockTest : public testing::Test {
 protected:
  os::Descriptor open() const {
    return os::Descriptor(os::open_at(os::kWorkingDirectory, directory_.path().c_str(), os::kOpenDirectory));
  }
  TemporaryDirectory directory_;
};

TEST_F(FolderLockTest, RefusesSecondWriter) {
  const os::Descriptor first = open();
  const os::Descriptor second = open();
  std::optional<io::FolderLock> lock(io::FolderLock::take(first.get(), directory_.path()).value());
  const Error error = error_of(io::FolderLock::take(second.get(), directory_.path(), 2));
  EXPECT_EQ(error.code, Errc::replace_failed);
  EXPECT_EQ(error.os_error, EWOULDBLOCK);
  EXPECT_EQ(error.path, directory_.path());
  EXPECT_TRUE(error.message.starts_with("another writer is changing the files of the folder: ")) << error.message;
  lock.reset();
  EXPECT_TRUE(succeeds(io::FolderLock::take(second.get(), directory_.path(), 1)));
}

// A forked child has the descriptor, too. It must not hold the lock of its parent.
TEST_F(FolderLockTest, IsFreeWhileChildHasFolder) {
  const os::Descriptor first = open();
  const os::Descriptor copy(::dup(first.get()));
  { const io::FolderLock lock = io::FolderLock::take(first.get(), directory_.path()).value(); }
  const os::Descriptor second = open();
  EXPECT_TRUE(succeeds(io::FolderLock::take(second.get(), directory_.path(), 1)));
}

// A folder that the user may not read.
TEST_F(FolderLockTest, GoesOnWithoutLocks) {
  const os::Descriptor folder(::open(directory_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(succeeds(io::FolderLock::take(folder.get(), directory_.path(), 1)));
}

}  // namespace
}  // namespace safetensors::test
