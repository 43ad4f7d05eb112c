// The effect of each system call that fails while a file is written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace safetensors::test
