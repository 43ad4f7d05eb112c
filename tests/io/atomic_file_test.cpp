// Atomic replacement: the file at the path afterwards, and the files beside it.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <iostream>
#include <iterator>
#include <mutex>
#include <thread>

#include "io/temporary.h"
#include "os/descriptor.h"
#include "os/regular_file.h"
#include "support/atomic_file_support.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

using os::Descriptor;

TEST_F(AtomicFileTest, HidesFileUntilCommit) {
  put(path, "old");
  auto file = AtomicFile::create(path, 3, {}).value();
  ASSERT_TRUE(succeeds(file->file().write_at(0, bytes_of("new"))));
  EXPECT_EQ(contents(path), "old");
  ASSERT_EQ(directory.names().size(), 2u);
  EXPECT_TRUE(io::is_temporary_name(directory.names()[0]));
  ASSERT_TRUE(succeeds(file->commit()));
  EXPECT_EQ(directory.names(), Names{"model"});
  EXPECT_EQ(contents(path), "new");
}

TEST_F(AtomicFileTest, RemovesTemporaryWithoutCommit) {
  put(path, "old");
  const ino_t inode = inode_of(path);
  AtomicFile::create(path, 3, {}).value().reset();
  expect_untouched(inode);
}

TEST_F(AtomicFileTest, RefusesSecondCommit) {
  auto file = AtomicFile::create(path, 0, {}).value();
  ASSERT_TRUE(succeeds(file->commit()));
  EXPECT_EQ(error_of(file->commit()).code, Errc::writer_closed);
}

TEST_F(AtomicFileTest, KeepsTemporaryInForkedChild) {
  auto file = AtomicFile::create(path, 3, {}).value();
  EXPECT_EQ(in_child([&] {
              file.reset();
              return true;
            }),
            0);
  ASSERT_TRUE(succeeds(file->file().write_at(0, bytes_of("new"))));
  ASSERT_TRUE(succeeds(file->commit()));
  EXPECT_EQ(contents(path), "new");
}

TEST_F(AtomicFileTest, KeepsModeOfReplacedFile) {
  for (const mode_t mode : std::initializer_list<mode_t>{0600, 0644, 0664, 0755, 0444}) {
    put(path, "old");
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const mode_t before = ::umask(077);
    const Status status = replace(path, "new");
    ::umask(before);
    ASSERT_TRUE(succeeds(status));
    EXPECT_EQ(mode_of(path), mode);
    EXPECT_EQ(contents(path), "new");
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
}

TEST_F(AtomicFileTest, KeepsTemporaryPrivate) {
  put(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const auto file = AtomicFile::create(path, 3, {}).value();
  const Names names = directory.names();
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(mode_of(directory / names[0]), mode_t{0600});
}

TEST_F(AtomicFileTest, KeepsOwnerIfRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  put(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_EQ(::chown(path.c_str(), 1234, 4321), 0);
  ASSERT_TRUE(succeeds(replace(path, "new")));
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, uid_t{1234});
  EXPECT_EQ(status.st_gid, gid_t{4321});
  EXPECT_EQ(mode_of(path), mode_t{0640});
}

TEST_F(AtomicFileTest, FollowsSymbolicLinks) {
  ASSERT_EQ(::mkdir((directory / "blobs").c_str(), 0755), 0);
  put(directory / "blobs/blob", "old");
  ASSERT_EQ(::symlink("blobs/blob", (directory / "second").c_str()), 0);
  ASSERT_EQ(::symlink((directory / "second").c_str(), path.c_str()), 0);
  ASSERT_TRUE(succeeds(replace(path, "new")));
  EXPECT_EQ(contents(directory / "blobs/blob"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_EQ(directory.names(), (Names{"blobs", "model", "second"}));
}

TEST_F(AtomicFileTest, CreatesTargetOfDanglingLink) {
  ASSERT_EQ(::mkdir((directory / "blobs").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("blobs/blob", path.c_str()), 0);
  ASSERT_TRUE(succeeds(replace(path, "new")));
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_EQ(contents(directory / "blobs/blob"), "new");
}

TEST_F(AtomicFileTest, RefusesLinkToItself) {
  ASSERT_EQ(::symlink("model", path.c_str()), 0);
  const Error error = error_of(replace(path, "new"));
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.os_error, ELOOP);
}

TEST_F(AtomicFileTest, ReplacesLinkAndKeepsTarget) {
  ASSERT_EQ(::mkdir((directory / "blobs").c_str(), 0755), 0);
  put(directory / "blobs/blob", "old");
  ASSERT_EQ(::chmod((directory / "blobs/blob").c_str(), 0640), 0);
  ASSERT_EQ(::symlink("blobs/blob", path.c_str()), 0);
  for (const Durability durability : {Durability::none, Durability::file, Durability::full}) {
    ASSERT_TRUE(succeeds(replace(path, "new", {.durability = durability, .links = io::Links::replace})));
    EXPECT_EQ(contents(path), "new");
    EXPECT_FALSE(std::filesystem::is_symlink(path));
    EXPECT_EQ(mode_of(path), mode_t{0640});
    EXPECT_EQ(contents(directory / "blobs/blob"), "old");
    EXPECT_EQ(directory.names(), (Names{"blobs", "model"}));
    ASSERT_EQ(::unlink(path.c_str()), 0);
    ASSERT_EQ(::symlink("blobs/blob", path.c_str()), 0);
  }
}

TEST_F(AtomicFileTest, ReplacesLinkThatLeadsToNoFile) {
  ASSERT_EQ(::mkdir((directory / "blobs").c_str(), 0755), 0);
  for (const char* const target : {"nowhere/blob", "blobs/blob", "model", "blobs"}) {
    ASSERT_EQ(::symlink(target, path.c_str()), 0);
    ASSERT_TRUE(succeeds(replace(path, "new", {.links = io::Links::replace}))) << target;
    EXPECT_FALSE(std::filesystem::is_symlink(path));
    EXPECT_EQ(contents(path), "new");
    EXPECT_EQ(directory.names(), (Names{"blobs", "model"}));
    EXPECT_TRUE(std::filesystem::is_empty(directory / "blobs"));
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
}

TEST_F(AtomicFileTest, KeepsLinkWithoutCommit) {
  put(directory / "blob", "old");
  ASSERT_EQ(::symlink("blob", path.c_str()), 0);
  AtomicFile::create(path, 3, {.links = io::Links::replace}).value().reset();
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_EQ(directory.names(), (Names{"blob", "model"}));
}

TEST_F(AtomicFileTest, RefusesLinksToSpecialFiles) {
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0644), 0);
  std::string up;
  for (int i = 0; i < 32; ++i) up += "../";
  ASSERT_EQ(::symlink("/proc/self/maps", (directory / "link").c_str()), 0);
  for (const std::string& target :
       {std::string("fifo"), std::string("/dev/null"), std::string("/proc/self/fd/1"), std::string("/dev/stdout"),
        std::string("//proc/self/maps"), up + "proc/self/maps", std::string("link")}) {
    ASSERT_EQ(::symlink(target.c_str(), path.c_str()), 0);
    EXPECT_EQ(error_of(replace(path, "new", {.links = io::Links::replace})).code, Errc::not_regular_file) << target;
    EXPECT_TRUE(std::filesystem::is_symlink(path));
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
}

TEST_F(AtomicFileTest, FollowsLinksOfDirectory) {
  ASSERT_EQ(::mkdir((directory / "real").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("real", (directory / "folder").c_str()), 0);
  ASSERT_TRUE(succeeds(replace(directory / "folder/model", "new", {.links = io::Links::replace})));
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "folder"));
  EXPECT_EQ(contents(directory / "real/model"), "new");
}

TEST_F(AtomicFileTest, SeparatesHardLinks) {
  put(directory / "other", "old");
  ASSERT_EQ(::link((directory / "other").c_str(), path.c_str()), 0);
  ASSERT_TRUE(succeeds(replace(path, "new")));
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(contents(directory / "other"), "old");
}

TEST_F(AtomicFileTest, RefusesAllButRegularFiles) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  Error error = error_of(replace(path, "new"));
  EXPECT_EQ(error.code, Errc::not_regular_file);
  EXPECT_EQ(error.message, "cannot replace a FIFO, only a regular file");
  EXPECT_EQ(directory.names(), Names{"model"});

  error = error_of(replace(directory.path(), "new"));
  EXPECT_EQ(error.code, Errc::not_regular_file);
  EXPECT_EQ(error.os_error, EISDIR);
  EXPECT_EQ(error.message, "cannot replace a directory, only a regular file");
  EXPECT_EQ(error_of(replace("/dev/null", "new")).message, "cannot replace a character device, only a regular file");
}

TEST_F(AtomicFileTest, RefusesUnlinkedOpenFile) {
  put(path, "old");
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  const std::string link = "/proc/self/fd/" + std::to_string(file.get());
  if (::access(link.c_str(), F_OK) != 0) GTEST_SKIP() << "/proc is not mounted";
  EXPECT_EQ(error_of(replace(link, "new")).code, Errc::open_failed);
  EXPECT_EQ(directory.names(), Names{});
}

TEST_F(AtomicFileTest, RefusesPathThatBecameFifo) {
  auto file = AtomicFile::create(path, 0, {}).value();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error_of(file->commit()).code, Errc::not_regular_file);
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(AtomicFileTest, RefusesImpossiblePaths) {
  EXPECT_EQ(error_of(replace("", "new")).os_error, ENOENT);
  EXPECT_EQ(error_of(replace("", "new")).code, Errc::open_failed);
  EXPECT_EQ(error_of(replace(std::string("a\0b", 3), "new")).code, Errc::invalid_argument);
  EXPECT_EQ(error_of(replace(path + "/", "new")).os_error, EISDIR);
  EXPECT_EQ(error_of(replace(path + "/", "new")).message, "cannot create: is a directory");
  EXPECT_EQ(error_of(replace(directory.path() + "/", "new")).code, Errc::not_regular_file);
  EXPECT_EQ(error_of(replace(directory / "missing/model", "new")).os_error, ENOENT);
  EXPECT_EQ(error_of(replace(directory / "missing/model", "new")).message,
            "cannot open its directory: no such file or directory");
  EXPECT_EQ(error_of(replace(directory / std::string(256, 'n'), "new")).os_error, ENAMETOOLONG);
  EXPECT_EQ(directory.names(), Names{});
}

TEST_F(AtomicFileTest, ReportsDirectoryThatIsRemovedMeanwhile) {
  const std::string folder = directory / "folder";
  for (const bool replaces : {false, true}) {
    ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0);
    if (replaces) put(folder + "/model", "old");
    auto file = AtomicFile::create(folder + "/model", 3, {}).value();
    ASSERT_TRUE(succeeds(file->file().write_at(0, bytes_of("new"))));
    std::filesystem::remove_all(folder);
    const Error error = error_of(file->commit());
    EXPECT_EQ(error.os_error, ENOENT) << error.message;
    EXPECT_EQ(error.path, folder + "/model");
    EXPECT_EQ(directory.names(), Names{});
  }
}

TEST_F(AtomicFileTest, AcceptsLongestName) {
  const std::string name(255, 'n');
  ASSERT_TRUE(succeeds(replace(directory / name, "old")));
  ASSERT_TRUE(succeeds(replace(directory / name, "new")));
  EXPECT_EQ(directory.names(), Names{name});
}

TEST_F(AtomicFileTest, KeepsDirectoryOfRelativePath) {
  const Descriptor before(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::chdir(directory.path().c_str()), 0);
  auto file = AtomicFile::create("model", 3, {});
  ASSERT_EQ(::fchdir(before.get()), 0);
  ASSERT_TRUE(succeeds(file));
  ASSERT_TRUE(succeeds((*file)->file().write_at(0, bytes_of("new"))));
  ASSERT_TRUE(succeeds((*file)->commit()));
  EXPECT_EQ(contents(path), "new");
}

TEST_F(AtomicFileTest, ReportsReadOnlyDirectory) {
  ASSERT_EQ(::chmod(directory.path().c_str(), 0555), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
              const Status status = replace(path, "new");
              return !status && status.error().code == Errc::open_failed && status.error().os_error == EACCES &&
                     status.error().message == "cannot create a file in its directory: permission denied";
            }),
            0);
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
}

TEST_F(AtomicFileTest, SyncsUnlistableDirectory) {
  ASSERT_EQ(::chmod(directory.path().c_str(), 0333), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
              const Status status = replace(path, "new");
              return status.ok();
            }),
            0);
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  EXPECT_EQ(contents(path), "new");
}

TEST_F(AtomicFileTest, RefusesImpossibleSize) {
  const Error error = error_of(AtomicFile::create(path, ~std::uint64_t{0}, {}));
  EXPECT_EQ(error.code, Errc::write_failed);
  EXPECT_EQ(error.os_error, EFBIG);
  EXPECT_EQ(directory.names(), Names{});
}

TEST_F(AtomicFileTest, LetsLastCommitWin) {
  auto first = AtomicFile::create(path, 5, {}).value();
  auto second = AtomicFile::create(path, 6, {}).value();
  ASSERT_TRUE(succeeds(first->file().write_at(0, bytes_of("first"))));
  ASSERT_TRUE(succeeds(second->file().write_at(0, bytes_of("second"))));
  ASSERT_TRUE(succeeds(second->commit()));
  EXPECT_EQ(contents(path), "second");
  ASSERT_TRUE(succeeds(first->commit()));
  EXPECT_EQ(contents(path), "first");
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(AtomicFileTest, NeverMixesFilesOfProcesses) {
  const auto text = [](int writer) {
    return std::string(20'000 + 1000 * static_cast<std::size_t>(writer), static_cast<char>('a' + writer));
  };
  put(path, text(0));
  std::vector<pid_t> children;
  for (int writer = 0; writer < 3; ++writer) {
    children.push_back(start_child([&] {
      bool good = true;
      for (int i = 0; i < 50; ++i) {
        const Status status = replace(path, text(writer), {.durability = Durability::none});
        if (!status) std::cerr << status.error().to_string() << '\n';
        good = status.ok() && good;
      }
      return good;
    }));
  }
  for (int i = 0; i < 100; ++i) {
    const std::string seen = contents(path);
    ASSERT_FALSE(seen.empty());
    EXPECT_EQ(seen, text(seen[0] - 'a'));
  }
  for (const pid_t child : children) EXPECT_EQ(result_of(child), 0);
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(AtomicFileTest, KeepsOldFileIfKilled) {
  put(path, "old");
  kill_while_writing(path);
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(directory.names().size(), 2u);
  ASSERT_TRUE(succeeds(replace(path, "new")));
  EXPECT_EQ(contents(path), "new");
}

// To list a directory takes time, so this is done only if a killed writer can have left one.
TEST(AtomicFileOrphans, GoBeforeFileIsReplaced) {
  const TemporaryDirectory directory;
  const std::string orphan = directory / ".safetensors-0123456789abcdef.tmp";
  const auto left = [&](std::uint64_t size, bool remove, bool old) {
    put(orphan, "x");
    if (old) put(directory / "file", "old");
    const io::AtomicFileOptions options{.durability = Durability::none, .remove_orphans = remove};
    EXPECT_TRUE(succeeds(AtomicFile::create(directory / "file", size, options)));
    return ::access(orphan.c_str(), F_OK) == 0;
  };
  constexpr std::uint64_t kLarge = std::uint64_t{16} << 20;
  EXPECT_TRUE(left(kLarge, true, false));
  EXPECT_TRUE(left(kLarge, false, true));
  EXPECT_FALSE(left(kLarge, true, true));
  EXPECT_FALSE(left(1, true, true));
  EXPECT_FALSE(left(0, true, true));
}

// In a large folder, a small file must not cost more than its write.
TEST(AtomicFileOrphans, StayBehindTheNamesThatAreRead) {
  const TemporaryDirectory directory;
  const std::string orphan = directory / ".safetensors-0123456789abcdef.tmp";
  put(orphan, "x");
  io::remove_orphans(directory.path(), 0);
  EXPECT_EQ(::access(orphan.c_str(), F_OK), 0);
  io::remove_orphans(directory.path(), 3);  // "." and ".." are names, too
  EXPECT_EQ(::access(orphan.c_str(), F_OK), -1);
}

}  // namespace
}  // namespace safetensors::test
