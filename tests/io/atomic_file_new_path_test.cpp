// AtomicFile at a new path: the file has no name until it is linked. Also tests the fallbacks for systems without such
// files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "io/temporary.h"
#include "os/descriptor.h"
#include "os/system.h"
#include "support/atomic_file_support.h"
#include "support/io_faults.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

class NewFile : public Supervised<AtomicFileTest> {
 protected:
  // Returns whether the file system of the temporary directory supports files without a name.
  bool unnamed() const {
    const os::Descriptor made(::open(directory.path().c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
    return made.valid() && os::linkable(made.get());
  }
  void expect_new(std::string_view text = "new") const {
    EXPECT_EQ(contents(path), text);
    EXPECT_EQ(directory.names(), Names{"model"});
  }
};

#define SKIP_WITHOUT_UNNAMED_FILES() \
  if (!unnamed()) GTEST_SKIP() << "the temporary directory's file system has no O_TMPFILE"

TEST_F(NewFile, LeavesNothingIfKilled) {
  SKIP_WITHOUT_UNNAMED_FILES();
  kill_while_writing(path, [&] { EXPECT_EQ(directory.names(), Names{}); });
  EXPECT_EQ(directory.names(), Names{});
}

TEST_F(NewFile, IsLinkedOnceAndNeverRenamed) {
  supervised([&] {
    SKIP_WITHOUT_UNNAMED_FILES();
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(system.links, 1);
    EXPECT_EQ(system.renames, 0);
    expect_new();
    EXPECT_EQ(open_below(directory.path()), 0u);
  });
}

TEST_F(NewFile, IsSyncedBeforeLinkAndDirectoryAfter) {
  supervised([&] {
    SKIP_WITHOUT_UNNAMED_FILES();
    std::vector<int> seen;
    system.before_link = [&] { seen = {system.file_syncs, system.directory_syncs}; };
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(seen, (std::vector<int>{1, 0}));
    EXPECT_EQ(system.directory_syncs, 1);
  });
}

TEST_F(NewFile, FallsBackOnAnyRefusal) {
  supervised([&] {
    for (const int number : {EOPNOTSUPP, EISDIR, ENOENT, EINVAL, EMFILE}) {
      system.unnamed_errno = number;
      ASSERT_TRUE(succeeds(replace(path, "new")));
      expect_new();
      ASSERT_EQ(::unlink(path.c_str()), 0);
    }
    system.unnamed_errno = 0;
    for (bool* const refused : {&system.no_proc, &system.remote}) {
      *refused = true;
      ASSERT_TRUE(succeeds(replace(path, "new")));
      expect_new();
      ASSERT_EQ(::unlink(path.c_str()), 0);
      *refused = false;
    }
    EXPECT_EQ(system.links, 0);
    EXPECT_EQ(system.renames, 7);
  });
}

TEST_F(NewFile, ReplacesFileThatAppeared) {
  supervised([&] {
    SKIP_WITHOUT_UNNAMED_FILES();
    const os::Descriptor before(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    system.before_link = [&] {
      if (system.links == 1) put(path, "other");
    };
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(system.links, 2);
    EXPECT_EQ(system.renames, 1);
    EXPECT_EQ(system.directory_syncs, 1);
    expect_new();
  });
}

TEST_F(NewFile, LocksSecondName) {
  supervised([&] {
    SKIP_WITHOUT_UNNAMED_FILES();
    put(directory / "other", "old");
    auto file = AtomicFile::create(path, 3, {}).value();
    ASSERT_TRUE(succeeds(file->file().write_at(0, bytes_of("new"))));
    put(path, "other");
    bool locked = false;
    system.before_rename = [&] {
      for (const std::string& name : directory.names()) {
        if (!io::is_temporary_name(name)) continue;
        const os::Descriptor opened(::open((directory / name).c_str(), O_RDONLY | O_CLOEXEC));
        locked = os::lock(opened.get()) != 0 && errno == EWOULDBLOCK;
      }
    };
    ASSERT_TRUE(succeeds(file->commit()));
    EXPECT_TRUE(locked);
    EXPECT_EQ(contents(path), "new");
  });
}

TEST_F(NewFile, IsCopiedIfLinksAreForbidden) {
  supervised([&] {
    SKIP_WITHOUT_UNNAMED_FILES();
    const std::string text = noise(std::size_t{3} << 20);
    for (const int number : {EPERM, EACCES, ENOENT, EOPNOTSUPP, ENOSYS, EXDEV, EMLINK}) {
      for (const Durability durability : {Durability::none, Durability::full}) {
        system.link_errno = number;
        system.file_syncs = 0;
        ASSERT_TRUE(succeeds(replace(path, text, {.durability = durability})));
        EXPECT_TRUE(contents(path) == text);
        EXPECT_EQ(directory.names(), Names{"model"});
        EXPECT_EQ(system.file_syncs, durability == Durability::full ? 2 : 0);
        ASSERT_EQ(::unlink(path.c_str()), 0);
      }
    }
  });
}

TEST_F(NewFile, NeverRetriesOnDiskError) {
  supervised([&] {
    SKIP_WITHOUT_UNNAMED_FILES();
    for (const int number : {EIO, ENOSPC, EDQUOT, EROFS}) {
      system.link_errno = number;
      system.opened = 0;
      const Error error = error_of(replace(path, "new"));
      EXPECT_EQ(error.code, Errc::replace_failed);
      EXPECT_EQ(error.os_error, number);
      EXPECT_EQ(error.path, path);
      EXPECT_EQ(system.opened, 1);
      EXPECT_EQ(directory.names(), Names{});
    }
  });
}

TEST_F(NewFile, RefusesPathInUse) {
  supervised([&] {
    for (const bool dangling : {false, true}) {
      if (dangling)
        ASSERT_EQ(::symlink("nowhere", path.c_str()), 0);
      else
        put(path, "old");
      const Error error = error_of(AtomicFile::create(path, 3, {.links = io::Links::refuse}));
      EXPECT_EQ(error.code, Errc::replace_failed);
      EXPECT_EQ(error.os_error, EEXIST);
      EXPECT_EQ(std::filesystem::is_symlink(path), dangling);
      EXPECT_EQ(directory.names(), Names{"model"});
      ASSERT_EQ(::unlink(path.c_str()), 0);
    }
  });
}

TEST_F(NewFile, RefuseWorksInEveryWay) {
  supervised([&] {
    const AtomicFileOptions options{.links = io::Links::refuse};
    for (const int unnamed_errno : {0, EOPNOTSUPP}) {
      for (const int link_errno : {0, EPERM}) {
        system.unnamed_errno = unnamed_errno;
        system.link_errno = link_errno;
        ASSERT_TRUE(succeeds(replace(path, "new", options)));
        expect_new();
        ASSERT_EQ(::unlink(path.c_str()), 0);
      }
    }
  });
}

TEST_F(NewFile, RefuseKeepsWhatAppearedMeanwhile) {
  supervised([&] {
    const AtomicFileOptions options{.links = io::Links::refuse};
    for (const int unnamed_errno : {0, EOPNOTSUPP}) {
      for (const int link_errno : {0, EPERM}) {
        for (const bool late : {false, true}) {
          // Without links, rename() replaces a file that appears after the last check.
          if (late && link_errno != 0 && unnamed_errno != 0) continue;
          system.unnamed_errno = unnamed_errno;
          system.link_errno = link_errno;
          system.before_link = [&] {
            if (late) put(path, "other");
          };
          auto file = AtomicFile::create(path, 3, options).value();
          ASSERT_TRUE(succeeds(file->file().write_at(0, bytes_of("new"))));
          if (!late) put(path, "other");
          const Error error = error_of(file->commit());
          EXPECT_EQ(error.code, Errc::replace_failed);
          EXPECT_EQ(error.os_error, EEXIST);
          expect_new("other");
          ASSERT_EQ(::unlink(path.c_str()), 0);
        }
      }
    }
  });
}

TEST_F(NewFile, AppliesUmaskInEveryWay) {
  supervised([&] {
    const mode_t before = ::umask(027);
    for (int way = 0; way < 3; ++way) {
      system.unnamed_errno = way == 1 ? EOPNOTSUPP : 0;
      system.link_errno = way == 2 ? EPERM : 0;
      EXPECT_TRUE(succeeds(replace(path, "new")));
      EXPECT_EQ(mode_of(path), mode_t{0640});
      EXPECT_EQ(::unlink(path.c_str()), 0);
    }
    ::umask(before);
  });
}

TEST_F(NewFile, IsWrittenDirectlyIfLarge) {
  supervised([&] {
    SKIP_WITHOUT_UNNAMED_FILES();
    const std::string text = noise(std::size_t{5} << 20);
    put(path, "old");
    if (!AtomicFile::create(path, text.size(), {}).value()->file().direct())
      GTEST_SKIP() << "the file system of the temporary directory does not support direct I/O";
    ASSERT_EQ(::unlink(path.c_str()), 0);
    ASSERT_TRUE(succeeds(replace(path, text)));
    EXPECT_EQ(system.links, 1);
    EXPECT_GT(system.direct_writes, 0);
    EXPECT_TRUE(contents(path) == text);
  });
}

TEST_F(NewFile, LetsManyWritersSucceed) {
  std::atomic<int> failures{0};
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      const Status status = replace(path, "new", {.durability = Durability::none});
      if (!status) std::cerr << status.error().to_string() << '\n', ++failures;
      (void)::unlink(path.c_str());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(directory.names(), Names{});
}

TEST_F(NewFile, IsNeverSeenInPart) {
  const std::string text = noise(std::size_t{1} << 20);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(succeeds(replace(path, text, {.durability = Durability::none})));
      EXPECT_EQ(::unlink(path.c_str()), 0);
    }
    done = true;
  });
  while (!done) {
    struct stat seen;
    if (::stat(path.c_str(), &seen) != 0) continue;
    EXPECT_EQ(static_cast<std::size_t>(seen.st_size), text.size());
  }
  writer.join();
}

class TemporaryFileLock : public Supervised<AtomicFileTest> {};

TEST_F(TemporaryFileLock, IsHeldUntilReplacement) {
  supervised([&] {
    put(path, "old");
    auto file = AtomicFile::create(path, 3, {}).value();
    const os::Descriptor other(::open((directory / directory.names()[0]).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(other.valid());
    const auto locked = [&] { return os::lock(other.get()) != 0 && errno == EWOULDBLOCK; };
    EXPECT_TRUE(locked());
    ASSERT_TRUE(succeeds(file->file().write_at(0, bytes_of("new"))));
    ASSERT_TRUE(succeeds(file->file().finish()));
    EXPECT_TRUE(locked());
    ASSERT_TRUE(succeeds(file->replace()));
    EXPECT_FALSE(locked());
  });
}

TEST_F(TemporaryFileLock, CausesOtherNameIfHeld) {
  supervised([&] {
    put(path, "old");
    system.lock_errno = EWOULDBLOCK;
    system.locks_before_success = 3;
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(system.made.size(), 4u);
    EXPECT_EQ(contents(path), "new");
    EXPECT_EQ(directory.names(), Names{"model"});

    system.locks_before_success = 1'000'000;
    const Error error = expect_failure();
    EXPECT_EQ(error.code, Errc::open_failed);
    EXPECT_EQ(error.os_error, EBUSY);
  });
}

TEST_F(TemporaryFileLock, MayBeUnsupported) {
  supervised([&] {
    for (const int number : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL}) {
      put(path, "old");
      system.lock_errno = number;
      ASSERT_TRUE(succeeds(replace(path, "new")));
      EXPECT_EQ(contents(path), "new");
    }
  });
}

TEST_F(TemporaryFileLock, SurvivesCleanedFile) {
  supervised([&] {
    put(path, "old");
    system.before_lock = [&] {
      for (const std::string& name : directory.names()) {
        if (system.locks != 1 || !io::is_temporary_name(name)) continue;
        EXPECT_EQ(::unlink((directory / name).c_str()), 0);
      }
    };
    ASSERT_TRUE(succeeds(replace(path, "new")));
    EXPECT_EQ(system.locks, 2);
    EXPECT_EQ(contents(path), "new");
    EXPECT_EQ(directory.names(), Names{"model"});
  });
}

TEST(TemporaryName, IsRecognisedLetterForLetter) {
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(io::is_temporary_name(io::temporary_name()));
  for (const char* name :
       {"", ".safetensors-.tmp", ".safetensors-0123456789abcde.tmp", ".safetensors-0123456789abcdef0.tmp",
        ".safetensors-0123456789abcdeF.tmp", ".safetensors-0123456789abcdeg.tmp", "safetensors-0123456789abcdef.tmp",
        ".safetensors_0123456789abcdef.tmp", ".safetensors-0123456789abcdef.tmp~", ".safetensors-0123456789abcdef.tmP",
        "a/.safetensors-0123456789abcdef.tmp", ".safetensors-0123456789ab/def.tmp"})
    EXPECT_FALSE(io::is_temporary_name(name)) << name;
}

}  // namespace
}  // namespace safetensors::test
