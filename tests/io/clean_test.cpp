// Tests that clean_directory() removes the files that killed writers left, and no other files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <safetensors/writer.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "io/temporary.h"
#include "os/descriptor.h"
#include "os/system.h"
#include "support/atomic_file_support.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

using namespace std::chrono_literals;
constexpr const char* kName = ".safetensors-0123456789abcdef.tmp";

class CleanDirectory : public testing::Test {
 protected:
  Names clean(const io::CleanOptions& options = {}) {
    const Result<Names> found = io::clean_directory(directory.path(), options);
    EXPECT_TRUE(succeeds(found));
    return found ? *found : Names{"an error"};
  }

  const TemporaryDirectory directory;
  const std::string path = directory / kName;
};

TEST_F(CleanDirectory, RemovesUnusedTemporaries) {
  put(path, "four");
  EXPECT_EQ(clean({.dry_run = true}), Names{path});
  EXPECT_EQ(contents(path), "four");
  EXPECT_EQ(clean(), Names{path});
  EXPECT_EQ(directory.names(), Names{});
  EXPECT_EQ(open_below(directory.path()), 0u);
}

TEST_F(CleanDirectory, LeavesLivingWritersAlone) {
  put(directory / "model", "old");
  auto writer = AtomicFile::create(directory / "model", 3, {}).value();
  for (const bool dry_run : {false, true}) EXPECT_EQ(clean({.dry_run = dry_run, .min_age = 0s}), Names{});
  EXPECT_EQ(directory.names().size(), 2U);
  ASSERT_TRUE(succeeds(writer->file().write_at(0, bytes_of("new"))));
  ASSERT_TRUE(succeeds(writer->file().finish()));
  EXPECT_EQ(clean({.min_age = 0s}), Names{});
  ASSERT_TRUE(succeeds(writer->commit()));
  EXPECT_EQ(clean(), Names{});
  EXPECT_EQ(contents(directory / "model"), "new");
}

TEST_F(CleanDirectory, RemovesTemporaryOfKilledWriter) {
  put(directory / "model", "old");
  kill_while_writing(directory / "model", [&] { EXPECT_EQ(clean({.min_age = 0s}), Names{}); });
  EXPECT_EQ(clean().size(), 1U);
  EXPECT_EQ(directory.names(), Names{"model"});
  EXPECT_EQ(contents(directory / "model"), "old");
}

TEST_F(CleanDirectory, RemovesFolderOfKilledWriter) {
  const std::string folder = directory / ".safetensors-0000000000000003.folder";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  put(folder + "/a.safetensors", "1234");
  put(folder + "/b.json", "56");
  put(directory / "target", "kept");
  ASSERT_EQ(::symlink("../target", (folder + "/link").c_str()), 0);
  os::Descriptor writer(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(os::lock(writer.get()), 0);
  EXPECT_EQ(clean(), Names{});
  writer.reset();
  EXPECT_EQ(clean({.dry_run = true}), Names{folder});
  EXPECT_EQ(clean(), Names{folder});
  EXPECT_EQ(directory.names(), Names{"target"});
  EXPECT_EQ(contents(directory / "target"), "kept");
}

TEST_F(CleanDirectory, TrustsLocksOverAge) {
  put(path, "four");
  const os::Descriptor writer(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(os::lock(writer.get()), 0);
  EXPECT_EQ(clean({.min_age = 0s}), Names{});
  ASSERT_EQ(os::unlock(writer.get()), 0);
  EXPECT_EQ(clean({.min_age = 1000h}), Names{path});
}

TEST_F(CleanDirectory, KeepsWhatNoWriterMakes) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  put(directory / "target", "kept");
  ASSERT_EQ(::symlink("target", (directory / ".safetensors-0000000000000001.tmp").c_str()), 0);
  ASSERT_EQ(::symlink("missing", (directory / ".safetensors-0000000000000002.tmp").c_str()), 0);
  ASSERT_EQ(::mkdir((directory / ".safetensors-0000000000000003.tmp").c_str(), 0700), 0);
  put(directory / ".safetensors-0000000000000004.folder", "a file");
  const std::string folder = directory / ".safetensors-0000000000000005.folder";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((folder + "/inside").c_str(), 0700), 0);
  put(folder + "/file", "kept");
  const Names names = directory.names();
  EXPECT_EQ(clean({.min_age = 0s}), Names{});
  EXPECT_EQ(directory.names(), names);
  EXPECT_EQ(contents(directory / "target"), "kept");
}

TEST_F(CleanDirectory, FollowsNamedLinkToDirectory) {
  put(path, "x");
  const TemporaryDirectory elsewhere;
  ASSERT_EQ(::symlink(directory.path().c_str(), (elsewhere / "link").c_str()), 0);
  const auto found = io::clean_directory(elsewhere / "link");
  ASSERT_TRUE(succeeds(found));
  EXPECT_EQ(found->at(0), elsewhere / "link/" + kName);
  EXPECT_EQ(directory.names(), Names{});
}

TEST_F(CleanDirectory, RefusesAllButDirectories) {
  put(directory / "file", "x");
  EXPECT_EQ(error_of(io::clean_directory(directory / "file")).os_error, ENOTDIR);
  EXPECT_EQ(error_of(io::clean_directory(directory / "missing")).os_error, ENOENT);
  EXPECT_EQ(error_of(io::clean_directory("")).os_error, ENOENT);
  EXPECT_EQ(error_of(io::clean_directory(std::string(1, '\0'))).code, Errc::invalid_argument);
  const Error error = error_of(io::clean_directory(directory / "missing"));
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.path, directory / "missing");
  EXPECT_EQ(error.message, "cannot open: no such file or directory");
}

TEST_F(CleanDirectory, OpensWriteOnlyFiles) {
  put(path, "x");
  ASSERT_EQ(::chmod(path.c_str(), 0200), 0);
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  }
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
              return clean() == Names{path};
            }),
            0);
}

}  // namespace
}  // namespace safetensors::test
