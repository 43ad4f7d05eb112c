// A directory in which a file is replaced.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.h"
#include "support/io_support.h"

namespace safetensors::test {

using io::AtomicFile;
using io::AtomicFileOptions;
using Names = std::vector<std::string>;

inline Status replace(const std::string& path, std::string_view text, const AtomicFileOptions& options = {}) {
  auto file = AtomicFile::create(path, text.size(), options);
  if (!file) return file.error();
  if (Status status = (*file)->file().write_at(0, bytes_of(text)); !status) return status;
  return (*file)->commit();
}

class AtomicFileTest : public testing::Test {
 protected:
  const TemporaryDirectory directory;
  const std::string path = directory / "model";

  // After an error before the rename: the old file, and nothing beside it.
  void expect_untouched(ino_t inode) const {
    EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(inode_of(path), inode);
    EXPECT_EQ(directory.names(), Names{"model"});
  }
  Error expect_failure(const AtomicFileOptions& options = {}) {
    put(path, "old");
    const ino_t inode = inode_of(path);
    const Error error = error_of(replace(path, "new", options));
    expect_untouched(inode);
    EXPECT_EQ(error.path, path);
    return error;
  }
};

// Writes half of a new file in a child. Calls check() while the child holds the file, then kills the child.
inline void kill_while_writing(
    const std::string& path, const std::function<void()>& check = [] {}) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = start_child([&] {
    auto file = AtomicFile::create(path, 6, {}).value();
    if (file->file().write_at(0, bytes_of("new")) && ::write(ends[1], "x", 1) == 1) ::pause();
    return false;
  });
  char written = 0;
  ASSERT_EQ(::read(ends[0], &written, 1), 1);
  check();
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(result_of(child), 1000 + SIGKILL);
  ::close(ends[0]), ::close(ends[1]);
}

}  // namespace safetensors::test
