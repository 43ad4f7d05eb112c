// AtomicFile at a new path: the file has no name until it is linked. Also tests the fallbacks for systems without such
// files. Then fails each call of os::System that an AtomicFile makes, in turn.
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
#include "support/io_faults.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

class NewFile : public AtomicFileTest {
 protected:
  // Returns whether the file system of the temporary directory supports files without a name.
  bool unnamed() const {
    const os::Descriptor made(::open(directory.path().c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
    return made.valid() && os::real_system().linkable(made.get());
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
  SKIP_WITHOUT_UNNAMED_FILES();
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(system.links, 1);
  EXPECT_EQ(system.renames, 0);
  expect_new();
  EXPECT_EQ(open_below(directory.path()), 0u);
}

TEST_F(NewFile, IsSyncedBeforeLinkAndDirectoryAfter) {
  SKIP_WITHOUT_UNNAMED_FILES();
  std::vector<int> seen;
  system.before_link = [&] { seen = {system.file_syncs, system.directory_syncs}; };
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(seen, (std::vector<int>{1, 0}));
  EXPECT_EQ(system.directory_syncs, 1);
}

TEST_F(NewFile, FallsBackOnAnyRefusal) {
  for (const int number : {EOPNOTSUPP, EISDIR, ENOENT, EINVAL, EMFILE}) {
    system.unnamed_errno = number;
    ASSERT_TRUE(succeeds(replace(path, "new", system)));
    expect_new();
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
  EXPECT_EQ(system.links, 0);
}

TEST_F(NewFile, FallsBackWithoutProc) {
  system.no_proc = true;
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(system.links, 0);
  EXPECT_EQ(system.renames, 1);
  expect_new();
}

TEST_F(NewFile, FallsBackOnNetworks) {
  system.kind = os::FileSystem::remote;
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(system.links, 0);
  expect_new();
}

TEST_F(NewFile, ReplacesFileThatAppeared) {
  SKIP_WITHOUT_UNNAMED_FILES();
  const os::Descriptor before(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  system.before_link = [&] {
    if (system.links == 1) put(path, "other");
  };
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(system.links, 2);
  EXPECT_EQ(system.renames, 1);
  EXPECT_EQ(system.directory_syncs, 1);
  expect_new();
}

TEST_F(NewFile, LocksSecondName) {
  SKIP_WITHOUT_UNNAMED_FILES();
  put(directory / "other", "old");
  auto file = AtomicFile::create(path, 3, {}, system).value();
  ASSERT_TRUE(succeeds(file->write_at(0, bytes_of("new"))));
  put(path, "other");
  bool locked = false;
  system.before_rename = [&] {
    for (const std::string& name : directory.names()) {
      if (!io::is_temporary_name(name)) continue;
      const os::Descriptor opened(::open((directory / name).c_str(), O_RDONLY | O_CLOEXEC));
      locked = os::real_system().lock(opened.get()) != 0 && errno == EWOULDBLOCK;
    }
  };
  ASSERT_TRUE(succeeds(file->commit()));
  EXPECT_TRUE(locked);
  EXPECT_EQ(contents(path), "new");
}

TEST_F(NewFile, IsCopiedIfLinksAreForbidden) {
  SKIP_WITHOUT_UNNAMED_FILES();
  const std::string text = noise(std::size_t{3} << 20);
  for (const int number : {EPERM, EACCES, ENOENT, EOPNOTSUPP, ENOSYS, EXDEV, EMLINK}) {
    for (const Sync sync : {Sync::none, Sync::full}) {
      system.link_errno = number;
      system.file_syncs = 0;
      ASSERT_TRUE(succeeds(replace(path, text, system, {.sync = sync})));
      EXPECT_TRUE(contents(path) == text);
      EXPECT_EQ(directory.names(), Names{"model"});
      EXPECT_EQ(system.file_syncs, sync == Sync::full ? 2 : 0);
      ASSERT_EQ(::unlink(path.c_str()), 0);
    }
  }
}

TEST_F(NewFile, NeverRetriesOnDiskError) {
  SKIP_WITHOUT_UNNAMED_FILES();
  for (const int number : {EIO, ENOSPC, EDQUOT, EROFS}) {
    system.link_errno = number;
    system.opened.clear();
    const Error error = error_of(replace(path, "new", system));
    EXPECT_EQ(error.code, Errc::replace_failed);
    EXPECT_EQ(error.os_error, number);
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(system.opened, Names{"."});
    EXPECT_EQ(directory.names(), Names{});
  }
}

TEST_F(NewFile, RefusesFifoThatAppeared) {
  system.before_link = [&] { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); };
  auto file = AtomicFile::create(path, 0, {}, system).value();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error_of(file->commit()).code, Errc::not_regular_file);
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(NewFile, RefusesPathInUse) {
  for (const bool dangling : {false, true}) {
    if (dangling)
      ASSERT_EQ(::symlink("nowhere", path.c_str()), 0);
    else
      put(path, "old");
    const Error error = error_of(AtomicFile::create(path, 3, {.links = io::Links::refuse}, system));
    EXPECT_EQ(error.code, Errc::replace_failed);
    EXPECT_EQ(error.os_error, EEXIST);
    EXPECT_EQ(std::filesystem::is_symlink(path), dangling);
    EXPECT_EQ(directory.names(), Names{"model"});
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
}

TEST_F(NewFile, RefuseWorksInEveryWay) {
  const AtomicFileOptions options{.links = io::Links::refuse};
  for (const int unnamed_errno : {0, EOPNOTSUPP}) {
    for (const int link_errno : {0, EPERM}) {
      system.unnamed_errno = unnamed_errno;
      system.link_errno = link_errno;
      ASSERT_TRUE(succeeds(replace(path, "new", system, options)));
      expect_new();
      ASSERT_EQ(::unlink(path.c_str()), 0);
    }
  }
}

TEST_F(NewFile, RefuseKeepsWhatAppearedMeanwhile) {
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
        auto file = AtomicFile::create(path, 3, options, system).value();
        ASSERT_TRUE(succeeds(file->write_at(0, bytes_of("new"))));
        if (!late) put(path, "other");
        const Error error = error_of(file->commit());
        EXPECT_EQ(error.code, Errc::replace_failed);
        EXPECT_EQ(error.os_error, EEXIST);
        expect_new("other");
        ASSERT_EQ(::unlink(path.c_str()), 0);
      }
    }
  }
}

TEST_F(NewFile, AppliesUmaskInEveryWay) {
  const mode_t before = ::umask(027);
  for (int way = 0; way < 3; ++way) {
    system.unnamed_errno = way == 1 ? EOPNOTSUPP : 0;
    system.link_errno = way == 2 ? EPERM : 0;
    EXPECT_TRUE(succeeds(replace(path, "new", system)));
    EXPECT_EQ(mode_of(path), mode_t{0640});
    EXPECT_EQ(::unlink(path.c_str()), 0);
  }
  ::umask(before);
}

TEST_F(NewFile, IsWrittenDirectlyIfLarge) {
  SKIP_WITHOUT_UNNAMED_FILES();
  const std::string text = noise(std::size_t{5} << 20);
  put(path, "old");
  if (!AtomicFile::create(path, text.size(), {}).value()->file().direct())
    GTEST_SKIP() << "the file system of the temporary directory does not support direct I/O";
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_TRUE(succeeds(replace(path, text, system)));
  EXPECT_EQ(system.links, 1);
  EXPECT_GT(system.direct_writes, 0);
  EXPECT_TRUE(contents(path) == text);
}

TEST_F(NewFile, LetsManyWritersSucceed) {
  std::atomic<int> failures{0};
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      const Status status = replace(path, "new", {.sync = Sync::none});
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
      EXPECT_TRUE(succeeds(replace(path, text, {.sync = Sync::none})));
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

class TemporaryFileLock : public AtomicFileTest {};

TEST_F(TemporaryFileLock, IsHeldUntilReplacement) {
  put(path, "old");
  auto file = AtomicFile::create(path, 3, {}, system).value();
  const os::Descriptor other(::open((directory / directory.names()[0]).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(other.valid());
  const auto locked = [&] { return os::real_system().lock(other.get()) != 0 && errno == EWOULDBLOCK; };
  EXPECT_TRUE(locked());
  ASSERT_TRUE(succeeds(file->write_at(0, bytes_of("new"))));
  ASSERT_TRUE(succeeds(file->file().finish()));
  EXPECT_TRUE(locked());
  ASSERT_TRUE(succeeds(file->replace()));
  EXPECT_FALSE(locked());
}

TEST_F(TemporaryFileLock, CausesOtherNameIfHeld) {
  put(path, "old");
  system.lock_errno = EWOULDBLOCK;
  system.locks_before_success = 3;
  ASSERT_TRUE(succeeds(replace(path, "new", system)));
  EXPECT_EQ(system.opened.size(), 4u);
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(directory.names(), Names{"model"});

  system.locks_before_success = 1'000'000;
  const Error error = expect_failure();
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.os_error, EBUSY);
}

TEST_F(TemporaryFileLock, MayBeUnsupported) {
  for (const int number : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL}) {
    put(path, "old");
    system.lock_errno = number;
    ASSERT_TRUE(succeeds(replace(path, "new", system)));
    EXPECT_EQ(contents(path), "new");
  }
}

TEST_F(TemporaryFileLock, SurvivesCleanedFile) {
  put(path, "old");
  class Cleaned final : public os::System {
   public:
    explicit Cleaned(const TemporaryDirectory& directory) : directory_(directory) {}
    int lock(int descriptor) noexcept override {
      if (++locks == 1) {
        for (const std::string& name : directory_.names()) {
          if (!io::is_temporary_name(name)) continue;
          EXPECT_EQ(::unlink((directory_ / name).c_str()), 0);
        }
      }
      return System::lock(descriptor);
    }
    int locks = 0;

   private:
    const TemporaryDirectory& directory_;
  } cleaned(directory);
  ASSERT_TRUE(succeeds(replace(path, "new", cleaned)));
  EXPECT_EQ(cleaned.locks, 2);
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(directory.names(), Names{"model"});
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

// Fails one call with an error number. `failing` is the index of this call among all calls below.
class FailingSystem final : public os::System {
 public:
  FailingSystem(int failing, int number) : failing_(failing), number_(number) {}
  [[nodiscard]] bool reached() const { return calls_ > failing_; }
  bool unlink_failed = false;

  int open_at(int directory, const char* name, os::OpenFlags flags, std::uint32_t permissions) noexcept override {
    return fails() ? -1 : System::open_at(directory, name, flags, permissions);
  }
  int close(int descriptor) noexcept override {
    const int result = System::close(descriptor);
    return fails() ? -1 : result;
  }
  std::ptrdiff_t write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept override {
    return fails() ? -1 : System::write_at(descriptor, bytes, size, offset);
  }
  int direct_alignment(int descriptor, os::DirectAlignment& alignment) noexcept override {
    return fails() ? -1 : System::direct_alignment(descriptor, alignment);
  }
  std::ptrdiff_t copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                            std::size_t size) noexcept override {
    return fails() ? -1 : System::copy_range(from, from_offset, to, to_offset, size);
  }
  int preallocate(int descriptor, std::uint64_t size) noexcept override {
    return fails() ? -1 : System::preallocate(descriptor, size);
  }
  int start_writeback(int descriptor) noexcept override { return fails() ? -1 : System::start_writeback(descriptor); }
  int sync(int) noexcept override { return fails() ? -1 : 0; }
  int sync_file_system(int) noexcept override { return fails() ? -1 : 0; }
  int change_mode(int descriptor, std::uint32_t mode) noexcept override {
    return fails() ? -1 : System::change_mode(descriptor, mode);
  }
  int change_owner(int descriptor, std::uint32_t user, std::uint32_t group) noexcept override {
    return fails() ? -1 : System::change_owner(descriptor, user, group);
  }
  int rename_at(int directory, const char* from, const char* to) noexcept override {
    return fails() ? -1 : System::rename_at(directory, from, to);
  }
  int unlink_at(int directory, const char* name) noexcept override {
    if (!fails()) return System::unlink_at(directory, name);
    unlink_failed = true;
    return -1;
  }
  int link_at(int descriptor, int directory, const char* name) noexcept override {
    return fails() ? -1 : System::link_at(descriptor, directory, name);
  }
  bool linkable(int descriptor) noexcept override { return !fails() && System::linkable(descriptor); }
  int duplicate(int descriptor) noexcept override { return fails() ? -1 : System::duplicate(descriptor); }
  int lock(int descriptor) noexcept override { return fails() ? -1 : System::lock(descriptor); }
  os::FileSystem file_system(int descriptor) noexcept override {
    return fails() ? os::FileSystem::remote : System::file_system(descriptor);
  }

 private:
  bool fails() noexcept {
    if (calls_++ != failing_) return false;
    errno = number_;
    return true;
  }

  const int failing_;
  const int number_;
  std::atomic<int> calls_{0};
};

class FailedCalls : public AtomicFileTest {
 protected:
  enum class Before { nothing, old, appears, appears_and_stays };

  // The path must hold either the old bytes or all new bytes.
  void check(const std::string& there, const Status& status, const FailingSystem& failing, const std::string& text) {
    const bool written = std::filesystem::exists(path) && contents(path) == text;
    const bool replaced = !status && status.error().code == Errc::replaced_not_durable;
    EXPECT_EQ(written, status.ok() || replaced);
    if (!written) {
      EXPECT_EQ(std::filesystem::exists(path), !there.empty());
      EXPECT_EQ(there.empty() ? "" : contents(path), there);
    }
    if (!status) {
      EXPECT_EQ(status.error().path, path) << status.error().message;
    }
    for (const std::string& name : directory.names()) EXPECT_TRUE(name == "model" || failing.unlink_failed) << name;
    EXPECT_EQ(open_below(directory.path()), 0u);
  }

  // Returns false if no call had this index. The first call has index 0.
  bool fail(int call, int number, Before before, Sync sync, const std::string& text) {
    SCOPED_TRACE("call " + std::to_string(call) + ", errno " + std::to_string(number) + ", before " +
                 std::to_string(static_cast<int>(before)) + ", sync " + std::to_string(static_cast<int>(sync)));
    for (const std::string& name : directory.names()) EXPECT_EQ(::unlink((directory / name).c_str()), 0);
    if (before == Before::old) put(path, "old");
    FailingSystem failing(call, number);
    std::string there = before == Before::old ? "old" : "";
    const Status status = [&]() -> Status {
      const io::Links links = before == Before::appears_and_stays ? io::Links::refuse : io::Links::follow;
      auto file = AtomicFile::create(path, text.size(), {.sync = sync, .links = links}, failing);
      if (!file) return file.error();
      if (Status written = (*file)->write_at(0, bytes_of(text)); !written) return written;
      if (before == Before::appears || before == Before::appears_and_stays) put(path, there = "other");
      return (*file)->commit();
    }();
    check(there, status, failing, text);
    return failing.reached();
  }
};

TEST_F(FailedCalls, LeaveOldOrNewFile) {
  const std::string small = "new", large = noise((std::size_t{1} << 20) + 5);
  int failures = 0;
  for (const int number : {EIO, ENOSPC, EMFILE, EPERM, EOPNOTSUPP, ENOENT, EEXIST, EINTR, EWOULDBLOCK}) {
    for (const Before before : {Before::nothing, Before::old, Before::appears, Before::appears_and_stays}) {
      for (const Sync sync : {Sync::none, Sync::full}) {
        for (const std::string* text : {&small, &large}) {
          for (int call = 0; fail(call, number, before, sync, *text); ++call) ++failures;
        }
      }
    }
  }
  EXPECT_GT(failures, 1000);
}

}  // namespace
}  // namespace safetensors::test
