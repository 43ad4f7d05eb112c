// The effect of each system call that fails while a file is written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "io/overwrite.h"
#include "os/regular_file.h"
#include "support/io_faults.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

TEST_F(AtomicFileTest, DropsRightsOfLostGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  put(path, "old");
  ASSERT_EQ(::chown(path.c_str(), 1234, 4321), 0);
  ASSERT_EQ(::chmod(path.c_str(), 04664), 0);
  system.owner_errno = EPERM;
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(mode_of(path), mode_t{0644});
}

TEST_F(AtomicFileTest, ToleratesMissingModes) {
  put(path, "old");
  system.mode_errno = EPERM;
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(contents(path), "new");
}

TEST_F(AtomicFileTest, SyncsAccordingToDurability) {
  ASSERT_TRUE(succeeds(replace(path, "new", system, {.sync = Sync::full})));
  EXPECT_EQ(system.file_syncs, 1);
  EXPECT_EQ(system.directory_syncs, 1);
  EXPECT_EQ(system.preallocations, 1);
  ASSERT_TRUE(succeeds(replace(path, "new", system, {.sync = Sync::file})));
  EXPECT_EQ(system.file_syncs, 2);
  EXPECT_EQ(system.directory_syncs, 1);
  EXPECT_EQ(system.preallocations, 2);
  ASSERT_TRUE(succeeds(replace(path, "new", system, {.sync = Sync::none})));
  EXPECT_EQ(system.file_syncs, 2);
  EXPECT_EQ(system.directory_syncs, 1);
  EXPECT_EQ(system.preallocations, 2);
  EXPECT_EQ(system.file_system_syncs, 0);
}

TEST_F(AtomicFileTest, SyncsFileBeforeRename) {
  put(path, "old");
  std::vector<int> seen;
  system.before_rename = [&] { seen = {system.file_syncs, system.directory_syncs}; };
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(seen, (std::vector<int>{1, 0}));
}

TEST_F(AtomicFileTest, NeverRepeatsFailedSync) {
  for (const int number : {EIO, EINTR, ENOSPC}) {
    system.file_sync_errno = number;
    system.file_syncs = 0;
    const Error error = expect_failure();
    EXPECT_EQ(error.code, Errc::sync_failed);
    EXPECT_EQ(error.os_error, number);
    EXPECT_EQ(system.file_syncs, 1);
    EXPECT_EQ(system.renames, 0);
  }
}

TEST_F(AtomicFileTest, ReportsFailedDirectorySync) {
  put(path, "old");
  system.directory_sync_errno = EIO;
  const Error error = error_of(replace(path, "new", system));
  EXPECT_EQ(error.code, Errc::replaced_not_durable);
  EXPECT_EQ(error.os_error, EIO);
  EXPECT_EQ(error.message, "the new file is in place, but its directory was not synced: input/output error");
  EXPECT_EQ(system.directory_syncs, 1);
  EXPECT_EQ(system.file_system_syncs, 0);
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(AtomicFileTest, FallsBackToFileSystemSync) {
  system.directory_sync_errno = EINVAL;
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(system.file_system_syncs, 1);
  system.file_system_sync_errno = EIO;
  const Error error = error_of(replace(path, "newer", system));
  EXPECT_EQ(error.code, Errc::replaced_not_durable);
  EXPECT_EQ(error.os_error, EIO);
  EXPECT_EQ(contents(path), "newer");
}

TEST_F(AtomicFileTest, NamesOffsetIfDiskIsFull) {
  system.write_errno = ENOSPC;
  const Error error = expect_failure({.sync = Sync::none});
  EXPECT_EQ(error.code, Errc::write_failed);
  EXPECT_EQ(error.os_error, ENOSPC);
  EXPECT_EQ(error.offset, 0u);
  EXPECT_EQ(error.message, "cannot write 3 bytes at byte 0: no space left on device");
}

TEST_F(AtomicFileTest, NamesOffsetOfFailedWrite) {
  system.longest_write = 1;
  system.write_errno = EIO;
  system.writes_before_failure = 2;
  const Error error = expect_failure();
  EXPECT_EQ(error.offset, 2u);
  EXPECT_EQ(error.message, "cannot write 1 bytes at byte 2: input/output error");
}

TEST_F(AtomicFileTest, FailsOnWriteOfZeroBytes) {
  system.longest_write = 0;
  EXPECT_EQ(expect_failure().os_error, EIO);
}

TEST_F(AtomicFileTest, ContinuesPartialWrites) {
  system.longest_write = 2;
  system.interruptions = 3;
  ASSERT_TRUE(succeeds(replace(path, "0123456789", system)));
  EXPECT_EQ(contents(path), "0123456789");
  EXPECT_EQ(system.interruptions, 0);
}

TEST_F(AtomicFileTest, FailsEarlyIfSpaceIsMissing) {
  for (const int number : {ENOSPC, EDQUOT, EFBIG}) {
    system.preallocate_errno = number;
    const Error error = expect_failure();
    EXPECT_EQ(error.code, Errc::write_failed);
    EXPECT_EQ(error.os_error, number);
  }
}

TEST_F(AtomicFileTest, ToleratesMissingPreallocation) {
  for (const int number : {EOPNOTSUPP, ENOSYS, EINVAL, EPERM}) {
    system.preallocate_errno = number;
    ASSERT_TRUE(succeeds(replace(path, "new", system)));
  }
}

TEST_F(AtomicFileTest, StartsWritebackOnlyIfDurable) {
  const std::string text(std::size_t{64} << 20, 'x');
  system.direct_open_errno = EINVAL;
  ASSERT_TRUE(succeeds(replace(path, text, system, {.sync = Sync::none})));
  EXPECT_EQ(system.writebacks, 0);
  ASSERT_TRUE(succeeds(replace(path, text, system, {.sync = Sync::file})));
  EXPECT_EQ(system.writebacks, 2);
  system.writeback_errno = ENOSYS;
  ASSERT_TRUE(succeeds(replace(path, text, system, {.sync = Sync::file})));
  system.writeback_errno = EIO;
  EXPECT_EQ(error_of(replace(path, text, system, {.sync = Sync::file})).code, Errc::write_failed);
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(AtomicFileTest, ReportsFailedClose) {
  system.close_errno = EDQUOT;
  const Error error = expect_failure();
  EXPECT_EQ(error.code, Errc::write_failed);
  EXPECT_EQ(error.os_error, EDQUOT);
}

TEST_F(AtomicFileTest, TriesOtherTemporaryNames) {
  put(path, "old");
  system.name_collisions = 2;
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  ASSERT_GE(system.opened.size(), 3u);
  EXPECT_NE(system.opened[0], system.opened[1]);
  EXPECT_NE(system.opened[1], system.opened[2]);
}

TEST_F(AtomicFileTest, FailsIfAllNamesAreTaken) {
  system.name_collisions = 1'000'000;
  EXPECT_EQ(expect_failure().os_error, EEXIST);
}

TEST_F(AtomicFileTest, KeepsOldFileIfRenameFails) {
  for (const int number : {EIO, EACCES, EBUSY}) {
    system.rename_errno = number;
    const Error error = expect_failure({.in_place_if_no_rename = true});
    EXPECT_EQ(error.code, Errc::replace_failed);
    EXPECT_EQ(error.os_error, number);
  }
}

TEST_F(AtomicFileTest, WritesInPlaceOnlyIfRequested) {
  for (const int number : {EPERM, ENOSYS, EXDEV, EOPNOTSUPP}) {
    system.rename_errno = number;
    const Error error = expect_failure();
    EXPECT_EQ(error.code, Errc::unsupported);
    EXPECT_EQ(error.os_error, number);

    const ino_t inode = inode_of(path);
    ASSERT_TRUE(succeeds(replace(path, "in place", system, {.in_place_if_no_rename = true})));
    EXPECT_EQ(contents(path), "in place");
    EXPECT_EQ(inode_of(path), inode);
    EXPECT_EQ(directory.names(), Names{"model"});
  }
}

TEST_F(AtomicFileTest, CreatesNewFileInPlace) {
  system.unnamed_errno = EOPNOTSUPP;
  system.rename_errno = ENOSYS;
  ASSERT_TRUE(succeeds(replace(path, "in place", system, {.in_place_if_no_rename = true})));
  EXPECT_EQ(contents(path), "in place");
  EXPECT_EQ(directory.names(), Names{"model"});
  EXPECT_EQ(system.file_syncs, 2);
  EXPECT_EQ(system.directory_syncs, 1);
}

TEST_F(AtomicFileTest, RemovesOldFileIfItCannotBeTruncated) {
  put(path, "old");
  system.rename_errno = ENOSYS;
  for (const int number : {EPERM, ENOSYS, EOPNOTSUPP}) {
    system.truncate_errno = number;
    ASSERT_TRUE(succeeds(replace(path, "in place", system, {.in_place_if_no_rename = true})));
    EXPECT_EQ(contents(path), "in place");
    EXPECT_EQ(directory.names(), Names{"model"});
  }
  system.truncate_errno = EACCES;
  const Error error = error_of(replace(path, "new", system, {.in_place_if_no_rename = true}));
  EXPECT_EQ(error.code, Errc::replace_failed);
  EXPECT_EQ(error.os_error, EACCES);
  EXPECT_EQ(contents(path), "in place");
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(AtomicFileTest, ReportsEpermInStickyDirectory) {
  ASSERT_EQ(::chmod(directory.path().c_str(), 01777), 0);
  system.rename_errno = EPERM;
  EXPECT_EQ(expect_failure({.in_place_if_no_rename = true}).code, Errc::replace_failed);
}

TEST_F(AtomicFileTest, CopiesWithAndWithoutCopyRange) {
  std::string text;
  for (int i = 0; i < 3'000'000; ++i) text += static_cast<char>('a' + i % 23);
  put(directory / "source", text);
  const auto source = os::RegularFile::open(directory / "source").value();
  for (const int number : {0, EXDEV, ENOSYS, EINVAL}) {
    system.copy_errno = number;
    system.interruptions = 1;
    auto file = AtomicFile::create(path, 2'500'003, {.sync = Sync::none}, system).value();
    ASSERT_TRUE(succeeds(file->write_at(0, bytes_of("abc"))));
    ASSERT_TRUE(succeeds(file->copy_at(3, *source, 4099, 2'500'000)));
    ASSERT_TRUE(succeeds(file->commit()));
    EXPECT_EQ(contents(path), "abc" + text.substr(4099, 2'500'000));
    EXPECT_GE(system.copies, 1);
  }
}

// The system would copy each page in two parts. On other file systems, a server may copy.
TEST_F(AtomicFileTest, CopiesThroughABufferIfBlocksCannotBeShared) {
  const std::string text(3'000'000, 'x');
  put(directory / "source", text);
  const auto source = os::RegularFile::open(directory / "source").value();
  if (source->file_system() != os::FileSystem::local)
    GTEST_SKIP() << "the temporary folder is not on a local file system";
  auto file = AtomicFile::create(path, 2'500'000, {.sync = Sync::none}, system).value();
  ASSERT_TRUE(succeeds(file->copy_at(0, *source, 17, 2'500'000)));
  ASSERT_TRUE(succeeds(file->commit()));
  EXPECT_EQ(contents(path), text.substr(17, 2'500'000));
  EXPECT_EQ(system.copies, 0);
}

// Files "0" to "3": old ones in place, new ones finished beside them.
class ReplaceAll : public AtomicFileTest {
 protected:
  void make() {
    files.clear();
    for (int i = 0; i < 4; ++i) {
      put(path_of(i), "old");
      files.push_back(AtomicFile::create(path_of(i), 3, {}, system).value());
      ASSERT_TRUE(succeeds(files.back()->write_at(0, bytes_of("new"))));
      ASSERT_TRUE(succeeds(files.back()->file().finish()));
    }
  }
  [[nodiscard]] std::string path_of(int i) const { return directory / std::to_string(i); }
  // The first so many files are new, the others old, and nothing is beside them.
  void expect_replaced(int count) {
    files.clear();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(contents(path_of(i)), i < count ? "new" : "old") << i;
    EXPECT_EQ(directory.names(), (Names{"0", "1", "2", "3"}));
  }
  std::vector<std::unique_ptr<AtomicFile>> files;
};

TEST_F(ReplaceAll, CountsReplacedFilesInError) {
  system.rename_errno = EIO;
  for (int replaced = 0; replaced < 4; ++replaced) {
    make();
    system.renames_before_failure = replaced;
    const Error error = error_of(io::replace_all(files));
    EXPECT_EQ(error.code, Errc::replace_failed);
    EXPECT_EQ(error.os_error, EIO);
    EXPECT_EQ(error.path, path_of(replaced));
    const std::string already = "; " + std::to_string(replaced) + " of 4 files were already replaced";
    EXPECT_EQ(error.message,
              "cannot put the new file in place: input/output error" + (replaced == 0 ? std::string() : already));
    expect_replaced(replaced);
  }
}

TEST_F(ReplaceAll, TakesBackFilesUnderOtherNames) {
  system.link_errno = EIO;
  for (int replaced = 0; replaced < 4; ++replaced) {
    make();
    for (int i = 0; i < 4; ++i) files[static_cast<std::size_t>(i)]->rename_target("new" + std::to_string(i));
    system.links_before_failure = replaced;
    const Error error = error_of(io::replace_all(files, io::OnFailure::take_back));
    EXPECT_EQ(error.code, Errc::replace_failed);
    EXPECT_EQ(error.message, "cannot put the new file in place: input/output error");
    expect_replaced(0);
  }
}

// Another program has taken the name.
TEST_F(ReplaceAll, NeverReplacesFileOfOtherName) {
  make();
  for (int i = 0; i < 4; ++i) files[static_cast<std::size_t>(i)]->rename_target("new" + std::to_string(i));
  put(directory / "new2", "other");
  const Error error = error_of(io::replace_all(files, io::OnFailure::take_back));
  EXPECT_EQ(error.code, Errc::replace_failed);
  EXPECT_EQ(error.os_error, EEXIST);
  EXPECT_EQ(contents(directory / "new2"), "other");
  ASSERT_EQ(::unlink((directory / "new2").c_str()), 0);
  expect_replaced(0);
}

TEST_F(ReplaceAll, SyncsDirectoryOnceAtEnd) {
  make();
  int syncs = -1;
  system.before_rename = [&] { syncs = system.directory_syncs; };
  ASSERT_TRUE(succeeds(io::replace_all(files)));
  EXPECT_EQ(syncs, 0);
  EXPECT_EQ(system.directory_syncs, 1);
  expect_replaced(4);
  make();
  system.directory_sync_errno = EIO;
  EXPECT_EQ(error_of(io::replace_all(files)).code, Errc::replaced_not_durable);
  expect_replaced(4);
}

// Fails always, and calls that what it is told to.
class FailingSource final : public Source {
 public:
  explicit FailingSource(Errc code) : code_(code) {}
  Result<std::uint64_t> size() const noexcept override { return std::uint64_t{4'000'000}; }
  Result<std::size_t> read_at(std::uint64_t, Span<std::byte>) const noexcept override {
    return Error{.code = code_, .message = "from the source"};
  }

 private:
  const Errc code_;
};

TEST_F(AtomicFileTest, TellsWhichSideOfCopyFailed) {
  const std::string text(3'000'000, 'a');
  put(directory / "source", text);
  const auto good = os::RegularFile::open(directory / "source").value();
  system.copy_errno = ENOSYS;
  for (const Sync sync : {Sync::full, Sync::none}) {
    auto file = AtomicFile::create(path, text.size(), {.sync = sync}, system).value();
    for (const Errc code : {Errc::write_failed, Errc::cancelled, Errc::ok, Errc::read_failed}) {
      bool source_failed = false;
      const Error error = error_of(file->copy_at(0, FailingSource(code), 0, text.size(), &source_failed));
      EXPECT_EQ(error.code, code == Errc::ok ? Errc::read_failed : code);
      EXPECT_TRUE(source_failed);
    }
    bool source_failed = true;
    system.write_errno = system.direct_write_errno = ENOSPC;
    EXPECT_EQ(error_of(file->copy_at(0, *good, 0, text.size(), &source_failed)).code, Errc::write_failed);
    EXPECT_FALSE(source_failed);
    system.write_errno = system.direct_write_errno = 0;
    ASSERT_TRUE(succeeds(file->copy_at(0, *good, 0, text.size(), &source_failed)));
    EXPECT_FALSE(source_failed);
  }
}

class Overwrite : public AtomicFileTest {
 protected:
  void SetUp() override {
    put(path, "0123456789");
    identity = os::RegularFile::open(path).value()->identity();
  }
  os::FileIdentity identity;
};

TEST_F(Overwrite, ChangesBytesInPlace) {
  const ino_t inode = inode_of(path);
  system.longest_write = 2;
  system.interruptions = 1;
  ASSERT_TRUE(succeeds(io::overwrite(path, identity, 3, bytes_of("abc"), Sync::full, system)));
  EXPECT_EQ(contents(path), "012abc6789");
  EXPECT_EQ(inode_of(path), inode);
  EXPECT_EQ(system.file_syncs, 1);
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(Overwrite, SyncsNothingIfNotDurable) {
  ASSERT_TRUE(succeeds(io::overwrite(path, identity, 0, bytes_of("x"), Sync::none, system)));
  EXPECT_EQ(system.file_syncs, 0);
}

TEST_F(Overwrite, RefusesChangedFile) {
  put(path, "something else");
  EXPECT_EQ(error_of(io::overwrite(path, identity, 0, bytes_of("x"), Sync::full, system)).code, Errc::file_changed);
  EXPECT_EQ(contents(path), "something else");
}

TEST_F(Overwrite, ReportsFailures) {
  system.file_sync_errno = EIO;
  EXPECT_EQ(error_of(io::overwrite(path, identity, 0, bytes_of("0"), Sync::full, system)).code, Errc::sync_failed);
  EXPECT_EQ(system.file_syncs, 1);
  identity = os::RegularFile::open(path).value()->identity();
  system.write_errno = EIO;
  const Error error = error_of(io::overwrite(path, identity, 2, bytes_of("x"), Sync::full, system));
  EXPECT_EQ(error.code, Errc::write_failed);
  EXPECT_EQ(error.offset, 2u);
  EXPECT_EQ(error_of(io::overwrite(directory / "missing", identity, 0, {}, Sync::full, system)).os_error, ENOENT);
}

}  // namespace
}  // namespace safetensors::test
