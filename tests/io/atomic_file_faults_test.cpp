// The effect of each system call that fails while a file is written.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "io/temporary.h"
#include "os/file_status.h"
#include "os/regular_file.h"
#include "support/atomic_file_support.h"
#include "support/io_faults.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

using namespace std::chrono_literals;

class AtomicFileFaults : public Supervised<AtomicFileTest> {};

TEST_F(AtomicFileFaults, DropsRightsOfLostGroup) {
  supervised([&] {
    if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
    put(path, "old");
    ASSERT_EQ(::chown(path.c_str(), 1234, 4321), 0);
    ASSERT_EQ(::chmod(path.c_str(), 04664), 0);
    system.owner_errno = EPERM;
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(mode_of(path), mode_t{0644});
  });
}

TEST_F(AtomicFileFaults, ToleratesMissingModes) {
  supervised([&] {
    put(path, "old");
    system.mode_errno = EPERM;
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(contents(path), "new");
  });
}

// A new file in a private model is never open to others, with and without a name.
TEST_F(AtomicFileFaults, HidesFileLikePrivateOneWithoutModes) {
  put(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  os::FileStatus like;
  ASSERT_EQ(os::status_of_path(path.c_str(), os::Symlinks::follow, like), 0);
  system.mode_errno = EPERM;
  for (const int number : {0, EOPNOTSUPP}) {
    system.unnamed_errno = number;
    supervised([&] {
      ASSERT_TRUE(succeeds(replace(directory / "new", "new", {.like = like})));
      EXPECT_EQ(mode_of(directory / "new"), mode_t{0600});
      ASSERT_EQ(::unlink((directory / "new").c_str()), 0);
    });
  }
}

TEST_F(AtomicFileFaults, SyncsAccordingToDurability) {
  supervised([&] {
    ASSERT_TRUE(succeeds(replace(path, "new", {.durability = Durability::full})));
    EXPECT_EQ(system.file_syncs, 1);
    EXPECT_EQ(system.directory_syncs, 1);
    EXPECT_EQ(system.preallocations, 1);
    ASSERT_TRUE(succeeds(replace(path, "new", {.durability = Durability::file})));
    EXPECT_EQ(system.file_syncs, 2);
    EXPECT_EQ(system.directory_syncs, 1);
    EXPECT_EQ(system.preallocations, 2);
    ASSERT_TRUE(succeeds(replace(path, "new", {.durability = Durability::none})));
    EXPECT_EQ(system.file_syncs, 2);
    EXPECT_EQ(system.directory_syncs, 1);
    EXPECT_EQ(system.preallocations, 2);
    EXPECT_EQ(system.file_system_syncs, 0);
  });
}

TEST_F(AtomicFileFaults, SyncsFileBeforeRename) {
  supervised([&] {
    put(path, "old");
    std::vector<int> seen;
    system.before_rename = [&] { seen = {system.file_syncs, system.directory_syncs}; };
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(seen, (std::vector<int>{1, 0}));
  });
}

TEST_F(AtomicFileFaults, NeverRepeatsFailedSync) {
  supervised([&] {
    for (const int number : {EIO, EINTR, ENOSPC}) {
      system.file_sync_errno = number;
      system.file_syncs = 0;
      const Error error = expect_failure();
      EXPECT_EQ(error.code, Errc::sync_failed);
      EXPECT_EQ(error.os_error, number);
      EXPECT_EQ(system.file_syncs, 1);
      EXPECT_EQ(system.renames, 0);
    }
  });
}

TEST_F(AtomicFileFaults, ReportsFailedDirectorySync) {
  supervised([&] {
    put(path, "old");
    system.directory_sync_errno = EIO;
    const Error error = error_of(replace(path, "new"));
    EXPECT_EQ(error.code, Errc::replaced_not_durable);
    EXPECT_EQ(error.os_error, EIO);
    EXPECT_EQ(error.message, "the new file is in place, but its directory was not synced: input/output error");
    EXPECT_EQ(system.directory_syncs, 1);
    EXPECT_EQ(system.file_system_syncs, 0);
    EXPECT_EQ(contents(path), "new");
    EXPECT_EQ(directory.names(), Names{"model"});
  });
}

TEST_F(AtomicFileFaults, FallsBackToFileSystemSync) {
  supervised([&] {
    system.directory_sync_errno = EINVAL;
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(system.file_system_syncs, 1);
    system.file_system_sync_errno = EIO;
    const Error error = error_of(replace(path, "newer"));
    EXPECT_EQ(error.code, Errc::replaced_not_durable);
    EXPECT_EQ(error.os_error, EIO);
    EXPECT_EQ(contents(path), "newer");
  });
}

TEST_F(AtomicFileFaults, SyncsFileSystemOfUnlistableDirectory) {
  supervised([&] {
    system.unlistable = true;
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(system.directory_syncs, 0);
    EXPECT_EQ(system.file_system_syncs, 1);
  });
}

TEST_F(AtomicFileFaults, NamesOffsetIfDiskIsFull) {
  supervised([&] {
    system.write_errno = ENOSPC;
    const Error error = expect_failure({.durability = Durability::none});
    EXPECT_EQ(error.code, Errc::write_failed);
    EXPECT_EQ(error.os_error, ENOSPC);
    EXPECT_EQ(error.offset, 0u);
    EXPECT_EQ(error.message, "cannot write 3 bytes at byte 0: no space left on device");
  });
}

TEST_F(AtomicFileFaults, NamesOffsetOfFailedWrite) {
  supervised([&] {
    system.longest_write = 1;
    system.write_errno = EIO;
    system.writes_before_failure = 2;
    const Error error = expect_failure();
    EXPECT_EQ(error.offset, 2u);
    EXPECT_EQ(error.message, "cannot write 1 bytes at byte 2: input/output error");
  });
}

TEST_F(AtomicFileFaults, FailsOnWriteOfZeroBytes) {
  supervised([&] {
    system.longest_write = 0;
    EXPECT_EQ(expect_failure().os_error, EIO);
  });
}

TEST_F(AtomicFileFaults, ContinuesPartialWrites) {
  supervised([&] {
    system.longest_write = 2;
    system.interruptions = 3;
    ASSERT_TRUE(succeeds(replace(path, "0123456789")));
    EXPECT_EQ(contents(path), "0123456789");
    EXPECT_EQ(system.interruptions, 0);
  });
}

TEST_F(AtomicFileFaults, FailsEarlyIfSpaceIsMissing) {
  supervised([&] {
    for (const int number : {ENOSPC, EDQUOT, EFBIG}) {
      system.preallocate_errno = number;
      const Error error = expect_failure();
      EXPECT_EQ(error.code, Errc::write_failed);
      EXPECT_EQ(error.os_error, number);
    }
  });
}

TEST_F(AtomicFileFaults, ToleratesMissingPreallocation) {
  supervised([&] {
    for (const int number : {EOPNOTSUPP, ENOSYS, EINVAL, EPERM}) {
      system.preallocate_errno = number;
      ASSERT_TRUE(succeeds(replace(path, "new")));
    }
  });
}

TEST_F(AtomicFileFaults, StartsWritebackOnlyIfDurable) {
  supervised([&] {
    const std::string text(std::size_t{64} << 20, 'x');
    system.direct_open_errno = EINVAL;
    ASSERT_TRUE(succeeds(replace(path, text, {.durability = Durability::none})));
    EXPECT_EQ(system.writebacks, 0);
    ASSERT_TRUE(succeeds(replace(path, text, {.durability = Durability::file})));
    EXPECT_EQ(system.writebacks, 2);
    system.writeback_errno = ENOSYS;
    ASSERT_TRUE(succeeds(replace(path, text, {.durability = Durability::file})));
    system.writeback_errno = EIO;
    EXPECT_EQ(error_of(replace(path, text, {.durability = Durability::file})).code, Errc::write_failed);
    EXPECT_EQ(directory.names(), Names{"model"});
  });
}

TEST_F(AtomicFileFaults, ReportsFailedClose) {
  supervised([&] {
    system.close_errno = EDQUOT;
    const Error error = expect_failure();
    EXPECT_EQ(error.code, Errc::write_failed);
    EXPECT_EQ(error.os_error, EDQUOT);
  });
}

TEST_F(AtomicFileFaults, TriesOtherTemporaryNames) {
  supervised([&] {
    put(path, "old");
    system.name_collisions = 2;
    ASSERT_TRUE(succeeds(replace(path, "new")));
    ASSERT_EQ(system.made.size(), 3u);
    EXPECT_NE(system.made[0], system.made[1]);
    EXPECT_NE(system.made[1], system.made[2]);
  });
}

TEST_F(AtomicFileFaults, FailsIfAllNamesAreTaken) {
  supervised([&] {
    system.name_collisions = 1'000'000;
    EXPECT_EQ(expect_failure().os_error, EEXIST);
  });
}

TEST_F(AtomicFileFaults, KeepsOldFileIfRenameFails) {
  supervised([&] {
    for (const int number : {EIO, EACCES, EBUSY}) {
      system.rename_errno = number;
      const Error error = expect_failure({.in_place_if_no_rename = true});
      EXPECT_EQ(error.code, Errc::replace_failed);
      EXPECT_EQ(error.os_error, number);
    }
  });
}

TEST_F(AtomicFileFaults, WritesInPlaceOnlyIfRequested) {
  supervised([&] {
    for (const int number : {EPERM, ENOSYS, EXDEV, EOPNOTSUPP}) {
      system.rename_errno = number;
      const Error error = expect_failure();
      EXPECT_EQ(error.code, Errc::unsupported);
      EXPECT_EQ(error.os_error, number);

      const ino_t inode = inode_of(path);
      ASSERT_TRUE(succeeds(replace(path, "in place", {.in_place_if_no_rename = true})));
      EXPECT_EQ(contents(path), "in place");
      EXPECT_EQ(inode_of(path), inode);
      EXPECT_EQ(directory.names(), Names{"model"});
    }
  });
}

TEST_F(AtomicFileFaults, CreatesNewFileInPlace) {
  supervised([&] {
    system.unnamed_errno = EOPNOTSUPP;
    system.rename_errno = ENOSYS;
    ASSERT_TRUE(succeeds(replace(path, "in place", {.in_place_if_no_rename = true})));
    EXPECT_EQ(contents(path), "in place");
    EXPECT_EQ(directory.names(), Names{"model"});
    EXPECT_EQ(system.file_syncs, 2);
    EXPECT_EQ(system.directory_syncs, 1);
  });
}

TEST_F(AtomicFileFaults, RemovesOldFileIfItCannotBeTruncated) {
  supervised([&] {
    put(path, "old");
    system.rename_errno = ENOSYS;
    for (const int number : {EPERM, ENOSYS, EOPNOTSUPP}) {
      system.truncate_errno = number;
      ASSERT_TRUE(succeeds(replace(path, "in place", {.in_place_if_no_rename = true})));
      EXPECT_EQ(contents(path), "in place");
      EXPECT_EQ(directory.names(), Names{"model"});
    }
    system.truncate_errno = EACCES;
    const Error error = error_of(replace(path, "new", {.in_place_if_no_rename = true}));
    EXPECT_EQ(error.code, Errc::replace_failed);
    EXPECT_EQ(error.os_error, EACCES);
    EXPECT_EQ(contents(path), "in place");
    EXPECT_EQ(directory.names(), Names{"model"});
  });
}

TEST_F(AtomicFileFaults, ReportsEpermInStickyDirectory) {
  supervised([&] {
    ASSERT_EQ(::chmod(directory.path().c_str(), 01777), 0);
    system.rename_errno = EPERM;
    EXPECT_EQ(expect_failure({.in_place_if_no_rename = true}).code, Errc::replace_failed);
  });
}

TEST_F(AtomicFileFaults, CopiesWithAndWithoutCopyRange) {
  supervised([&] {
    std::string text;
    for (int i = 0; i < 3'000'000; ++i) text += static_cast<char>('a' + i % 23);
    put(directory / "source", text);
    const auto source = os::RegularFile::open(directory / "source").value();
    for (const int number : {0, EXDEV, ENOSYS, EINVAL}) {
      system.copy_errno = number;
      system.interruptions = 1;
      auto file = AtomicFile::create(path, 2'500'003, {.durability = Durability::none}).value();
      ASSERT_TRUE(succeeds(file->file().write_at(0, bytes_of("abc"))));
      ASSERT_TRUE(succeeds(file->file().copy_at(3, *source, 4099, 2'500'000)));
      ASSERT_TRUE(succeeds(file->commit()));
      EXPECT_EQ(contents(path), "abc" + text.substr(4099, 2'500'000));
      EXPECT_GE(system.copies, 1);
    }
  });
}

// The system would copy each page in two parts. On other file systems, a server may copy.
TEST_F(AtomicFileFaults, CopiesThroughABufferIfBlocksCannotBeShared) {
  supervised([&] {
    const std::string text(3'000'000, 'x');
    put(directory / "source", text);
    const auto source = os::RegularFile::open(directory / "source").value();
    if (source->file_system() != os::FileSystem::local)
      GTEST_SKIP() << "the temporary folder is not on a local file system";
    auto file = AtomicFile::create(path, 2'500'000, {.durability = Durability::none}).value();
    ASSERT_TRUE(succeeds(file->file().copy_at(0, *source, 17, 2'500'000)));
    ASSERT_TRUE(succeeds(file->commit()));
    EXPECT_EQ(contents(path), text.substr(17, 2'500'000));
    EXPECT_EQ(system.copies, 0);
  });
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

// An error of reading has no path, and one of writing that of the output.
TEST_F(AtomicFileFaults, CopyFailsWithErrorOfEitherSide) {
  supervised([&] {
    const std::string text(3'000'000, 'a');
    put(directory / "source", text);
    const auto good = os::RegularFile::open(directory / "source").value();
    system.copy_errno = ENOSYS;
    for (const Durability durability : {Durability::full, Durability::none}) {
      auto file = AtomicFile::create(path, text.size(), {.durability = durability}).value();
      for (const Errc code : {Errc::write_failed, Errc::cancelled, Errc::read_failed}) {
        const Error error = error_of(file->file().copy_at(0, FailingSource(code), 0, text.size()));
        EXPECT_EQ(error.code, code);
        EXPECT_EQ(error.path, "");
      }
      system.write_errno = system.direct_write_errno = ENOSPC;
      const Error error = error_of(file->file().copy_at(0, *good, 0, text.size()));
      EXPECT_EQ(error.code, Errc::write_failed);
      EXPECT_EQ(error.path, path);
      system.write_errno = system.direct_write_errno = 0;
      ASSERT_TRUE(succeeds(file->file().copy_at(0, *good, 0, text.size())));
    }
  });
}

class CleanFaults : public Supervised<AtomicFileTest> {
 protected:
  // Returns whether clean_directory() finds the only temporary.
  bool clean(const io::CleanOptions& options = {}) {
    const Result<Names> found = io::clean_directory(directory.path(), options);
    EXPECT_TRUE(succeeds(found));
    return found && *found == Names{temporary};
  }
  static constexpr std::string_view kName = ".safetensors-0123456789abcdef.tmp";
  const std::string temporary = directory / kName;
};

TEST_F(CleanFaults, DecideByAgeWithoutLocks) {
  put(temporary, "four");
  for (const bool remote : {false, true}) {
    system.remote = remote;
    system.lock_errno = remote ? 0 : ENOLCK;
    supervised([&] {
      EXPECT_FALSE(clean());
      EXPECT_FALSE(clean({.dry_run = true}));
      EXPECT_TRUE(clean({.dry_run = true, .min_age = 0s}));
      EXPECT_EQ(contents(temporary), "four");
    });
  }
  // An old modification time is not enough, because the change time is still recent.
  const timespec old[] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, temporary.c_str(), old, 0), 0);
  supervised([&] {
    EXPECT_FALSE(clean());
    EXPECT_TRUE(clean({.min_age = 0s}));
  });
}

// A server can have a clock that is ahead. And a file gets a finer time than time() returns.
TEST_F(CleanFaults, TakeATimeInTheFutureForNow) {
  put(temporary, "four");
  system.lock_errno = ENOLCK;
  const std::time_t future = std::time(nullptr) + 1000;
  const timespec times[] = {{future, 0}, {future, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, temporary.c_str(), times, 0), 0);
  supervised([&] {
    EXPECT_FALSE(clean({.min_age = 1s}));
    EXPECT_TRUE(clean({.min_age = 0s}));
  });
}

TEST_F(CleanFaults, LeaveWhatCannotBeRemoved) {
  put(temporary, "x");
  supervised([&] {
    system.closed_name = kName;
    EXPECT_FALSE(clean());
    system.closed_name.clear();
    system.fixed_name = kName;
    EXPECT_FALSE(clean());
    put(directory / ".safetensors-ffffffffffffffff.tmp", "x");
    EXPECT_EQ(io::clean_directory(directory.path()).value(), Names{directory / ".safetensors-ffffffffffffffff.tmp"});
    EXPECT_EQ(directory.names(), Names{std::string(kName)});
    system.fixed_name.clear();
    system.before_lock = [&] { EXPECT_EQ(::unlink(temporary.c_str()), 0); };
    EXPECT_FALSE(clean());  // its writer has finished meanwhile
  });
}

}  // namespace
}  // namespace safetensors::test
