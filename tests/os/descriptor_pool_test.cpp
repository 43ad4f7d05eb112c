// A pool of descriptors: how many are open, and which files are opened again.
#include "os/descriptor_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "os/regular_file.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::error_of;
using test::in_child;
using test::open_below;
using test::put;
using test::succeeds;
using test::TemporaryDirectory;
using test::text_of;

class OpenPath final : public Opener {
 public:
  explicit OpenPath(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Result<Descriptor> open() const noexcept override {
    ++opened;
    if (failures > 0) {
      --failures;
      return Error{.code = Errc::open_failed, .os_error = failure, .message = "refused"};
    }
    return Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  }
  mutable std::atomic<int> opened{0};
  mutable std::atomic<int> failures{0};
  int failure = EMFILE;

 private:
  std::string path_;
};

class DescriptorPoolTest : public testing::Test {
 protected:
  void SetUp() override { put(directory_ / "file", "0123456789"); }
  std::size_t open() const { return open_below(directory_.path()); }
  TemporaryDirectory directory_;
  OpenPath opener_{directory_ / "file"};
};

TEST_F(DescriptorPoolTest, OpensOnceAndKeeps) {
  DescriptorPool pool(2, 2);
  EXPECT_EQ(open(), 0U);
  const int first = pool.acquire(1, opener_).value().get();
  EXPECT_EQ(pool.acquire(1, opener_).value().get(), first);
  EXPECT_EQ(opener_.opened, 1);
  EXPECT_EQ(open(), 1U);
  pool.close(1);
  EXPECT_EQ(open(), 0U);
}

TEST_F(DescriptorPoolTest, ClosesIdleOnesPastLimit) {
  DescriptorPool pool(10, 3);
  for (int round = 0; round < 5; ++round) {
    for (std::size_t slot = 0; slot < 10; ++slot) {
      const Result<Lease> lease = pool.acquire(slot, opener_);
      EXPECT_LE(open(), 3U);
    }
  }
  EXPECT_EQ(open(), 3U);
}

TEST_F(DescriptorPoolTest, KeepsUsedOnesOpen) {
  {
    DescriptorPool pool(4, 1);
    std::vector<Result<Lease>> leases;
    for (std::size_t slot = 0; slot < 4; ++slot) leases.push_back(pool.acquire(slot, opener_));
    EXPECT_EQ(open(), 4U);
    for (const Result<Lease>& lease : leases) {
      char byte = 0;
      EXPECT_EQ(::pread(lease.value().get(), &byte, 1, 7), 1);
      EXPECT_EQ(byte, '7');
    }
    leases.pop_back();
    EXPECT_EQ(open(), 3U);
    leases.clear();
    EXPECT_EQ(open(), 1U);
  }
  EXPECT_EQ(open(), 0U);
}

TEST_F(DescriptorPoolTest, TreatsZeroLimitAsOne) {
  DescriptorPool pool(3, 0);
  for (std::size_t slot = 0; slot < 3; ++slot) EXPECT_TRUE(succeeds(pool.acquire(slot, opener_)));
  EXPECT_EQ(open(), 1U);
}

TEST_F(DescriptorPoolTest, ClosesRecentlyUsedLast) {
  DescriptorPool pool(3, 2);
  (void)pool.acquire(0, opener_);
  (void)pool.acquire(1, opener_);
  (void)pool.acquire(2, opener_);  // slots 0 and 1 are recent: the CLOCK hand clears both marks, then closes slot 0
  opener_.opened = 0;
  (void)pool.acquire(2, opener_);
  EXPECT_EQ(opener_.opened, 0);
  (void)pool.acquire(0, opener_);  // closes slot 1, which has not been used since the hand passed it
  (void)pool.acquire(2, opener_);
  EXPECT_EQ(opener_.opened, 1);
}

TEST_F(DescriptorPoolTest, RetriesAfterClosingIdle) {
  DescriptorPool pool(4, 4);
  opener_.failures = 1;
  EXPECT_EQ(error_of(pool.acquire(0, opener_)).os_error, EMFILE);  // nothing is idle
  EXPECT_EQ(opener_.opened, 1);
  for (std::size_t slot = 0; slot < 3; ++slot) EXPECT_TRUE(succeeds(pool.acquire(slot, opener_)));
  EXPECT_EQ(open(), 3U);
  const Result<Lease> used = pool.acquire(0, opener_);
  opener_.failures = 1;
  opener_.failure = ENFILE;
  EXPECT_TRUE(succeeds(pool.acquire(3, opener_)));
  EXPECT_EQ(open(), 2U);
  opener_.failures = 2;
  opener_.opened = 0;
  EXPECT_EQ(error_of(pool.acquire(1, opener_)).message, "refused");
  EXPECT_EQ(opener_.opened, 2);
  opener_.failures = 1;
  opener_.failure = EACCES;
  opener_.opened = 0;
  EXPECT_EQ(error_of(pool.acquire(1, opener_)).os_error, EACCES);
  EXPECT_EQ(opener_.opened, 1);
}

TEST_F(DescriptorPoolTest, ServesThreadsAtTinyLimit) {
  constexpr std::size_t kFiles = 12;
  std::vector<std::unique_ptr<OpenPath>> openers;
  for (std::size_t i = 0; i < kFiles; ++i) {
    put(directory_ / std::to_string(i), std::string(1, static_cast<char>('a' + i)));
    openers.push_back(std::make_unique<OpenPath>(directory_ / std::to_string(i)));
  }
  DescriptorPool pool(kFiles, 2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 2000; ++i) {
        const std::size_t slot = (t * 7 + i * (t + 1)) % kFiles;
        const Result<Lease> lease = pool.acquire(slot, *openers[slot]);
        char byte = 0;
        if (!lease || ::pread(lease->get(), &byte, 1, 0) != 1 || byte != static_cast<char>('a' + slot)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(open(), 2U);
}

TEST(DescriptorLimit, IsHalfOfProcessLimit) {
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit limit = before;
  for (const auto& [soft, expected] : {std::pair<rlim_t, std::size_t>{64, 32}, {1, 1}, {0, 1}}) {
    limit.rlim_cur = soft;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(descriptor_limit(), expected);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

// Two files in a pool that holds one of them open.
class PooledFile : public testing::Test {
 protected:
  void SetUp() override {
    put(directory_ / "a", "aaaa");
    put(directory_ / "b", "bbbb");
    a_ = *RegularFile::open(directory_ / "a", {pool_, 0});
    b_ = *RegularFile::open(directory_ / "b", {pool_, 1});
  }
  static std::string read(const RegularFile& file) {
    std::string bytes(4, '?');
    const Status status = read_exactly(file, 0, std::as_writable_bytes(std::span(bytes)));
    return status ? bytes : status.error().message;
  }
  std::size_t open() const { return open_below(directory_.path()); }
  void expect_changed(const std::string& message) {
    const Error error = error_of(a_->lease());
    EXPECT_EQ(error.code, Errc::file_changed) << error.to_string();
    EXPECT_EQ(error.message, message);
    EXPECT_EQ(error.path, "");
    EXPECT_EQ(read(*a_), message);
    EXPECT_EQ(error_of(a_->map(0, 4, MapMode::shared)).code, Errc::file_changed);
    EXPECT_EQ(read(*b_), "bbbb");
  }
  TemporaryDirectory directory_;
  std::shared_ptr<DescriptorPool> pool_ = std::make_shared<DescriptorPool>(2, 1);
  std::shared_ptr<const RegularFile> a_;
  std::shared_ptr<const RegularFile> b_;
};

TEST_F(PooledFile, ReopensOnRead) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(open(), 1U);
    EXPECT_EQ(read(*a_), "aaaa");
    EXPECT_EQ(read(*b_), "bbbb");
  }
  a_.reset();
  EXPECT_EQ(open(), 1U);
  pool_.reset();
  b_.reset();
  EXPECT_EQ(open(), 0U);
}

TEST_F(PooledFile, KeepsMapWithoutDescriptor) {
  const Result<Mapping> map = a_->map(0, 4, MapMode::shared);
  ASSERT_TRUE(succeeds(map));
  EXPECT_EQ(read(*b_), "bbbb");
  EXPECT_EQ(open(), 1U);
  EXPECT_EQ(text_of(map->bytes), "aaaa");
}

TEST_F(PooledFile, IsUsedAndClosedInForkedChild) {
  EXPECT_EQ(read(*b_), "bbbb");
  EXPECT_EQ(in_child([&] { return read(*b_) == "bbbb" && open() == 1 && read(*a_) == "aaaa" && open() == 1; }), 0);
  EXPECT_EQ(in_child([&] {
              a_.reset();
              b_.reset();
              return open() == 0;
            }),
            0);
  EXPECT_EQ(read(*b_), "bbbb");
}

// fork() copies the descriptors before the memory. A thread of the parent may change both between the two copies.
TEST_F(PooledFile, LeavesForeignDescriptorAlone) {
  EXPECT_EQ(read(*b_), "bbbb");
  const int number = b_->lease().value().get();
  EXPECT_EQ(in_child([&] {
              put(directory_ / "mine", "mine");
              const Descriptor mine(::open((directory_ / "mine").c_str(), O_RDONLY | O_CLOEXEC));
              if (::dup2(mine.get(), number) != number) return false;
              if (read(*b_) != "bbbb" || read(*a_) != "aaaa") return false;
              char byte = 0;
              return ::pread(number, &byte, 1, 0) == 1 && byte == 'm';
            }),
            0);
  EXPECT_EQ(in_child([&] {
              ::close(number);
              return read(*b_) == "bbbb" && read(*a_) == "aaaa" && open() == 1;
            }),
            0);
  EXPECT_EQ(read(*b_), "bbbb");
}

TEST_F(PooledFile, EndsLeaseInParentAndChild) {
  std::optional<Lease> lease(b_->lease().value());
  EXPECT_EQ(in_child([&] {
              const bool right = read(*b_) == "bbbb";
              lease.reset();
              return right && read(*b_) == "bbbb" && read(*a_) == "aaaa" && open() == 1;
            }),
            0);
  lease.reset();
  EXPECT_EQ(read(*a_), "aaaa");
  EXPECT_EQ(open(), 1U);
}

TEST_F(PooledFile, SurvivesChangeOfDirectory) {
  char before[4096];
  ASSERT_NE(::getcwd(before, sizeof before), nullptr);
  ASSERT_EQ(::chdir(directory_.path().c_str()), 0);
  a_ = *RegularFile::open("a", {pool_, 0});
  ASSERT_EQ(::chdir("/"), 0);
  EXPECT_EQ(read(*b_), "bbbb");
  EXPECT_EQ(read(*a_), "aaaa");
  ASSERT_EQ(::chdir(before), 0);
}

TEST_F(PooledFile, RefusesReplacedFile) {
  put(directory_ / "new", "aaaa");
  ASSERT_EQ(::rename((directory_ / "new").c_str(), (directory_ / "a").c_str()), 0);
  expect_changed("file was replaced: its path leads to another file than the one opened");
}

TEST_F(PooledFile, RefusesLongerFile) {
  put(directory_ / "a", "aaaaa");
  expect_changed("file was changed: it had 4 bytes when it was opened, now it has 5");
}

TEST_F(PooledFile, RefusesOtherChangeTime) {
  ASSERT_EQ(::chmod((directory_ / "a").c_str(), 0400), 0);
  expect_changed("file was changed after it was opened: its change time is another");
}

TEST_F(PooledFile, RefusesFifo) {
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  ASSERT_EQ(::rename((directory_ / "fifo").c_str(), (directory_ / "a").c_str()), 0);
  expect_changed("file was replaced: its path leads to another file than the one opened");
}

TEST_F(PooledFile, CannotReopenAfterUnlink) {
  EXPECT_EQ(read(*a_), "aaaa");
  ASSERT_EQ(::unlink((directory_ / "a").c_str()), 0);
  EXPECT_EQ(read(*a_), "aaaa");  // it is still open
  EXPECT_EQ(read(*b_), "bbbb");
  const Error error = error_of(a_->lease());
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.os_error, ENOENT);
  EXPECT_EQ(error.message, "cannot open again: no such file or directory");
}

TEST_F(PooledFile, KeepsSlotClosedIfOpenFails) {
  a_.reset();
  EXPECT_EQ(error_of(RegularFile::open(directory_ / "none", {pool_, 0})).message,
            "cannot open: no such file or directory");
  EXPECT_EQ(error_of(RegularFile::open(directory_.path(), {pool_, 0})).code, Errc::not_regular_file);
  EXPECT_EQ(error_of(RegularFile::open("/proc/self/status", {pool_, 0})).code, Errc::not_regular_file);
  b_.reset();
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(pool_.use_count(), 1);
}

// Files that the first lease opens.
class LateFile : public PooledFile {
 protected:
  void SetUp() override {}
  std::shared_ptr<const RegularFile> late(const std::string& path, std::uint64_t size = 4) const {
    return RegularFile::open_later(path, size, {pool_, 0}).value();
  }
};

TEST_F(LateFile, OpensOnFirstRead) {
  const std::shared_ptr<const RegularFile> file = late(directory_ / "c");
  EXPECT_EQ(file->size().value(), 4U);
  put(directory_ / "c", "cccc");
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(read(*file), "cccc");
  EXPECT_EQ(open(), 1U);
  EXPECT_EQ(read(*file), "cccc");
  EXPECT_EQ(file->identity(), RegularFile::open(directory_ / "c").value()->identity());
}

TEST_F(LateFile, OpensForIdentityOrFileSystem) {
  put(directory_ / "c", "cccc");
  EXPECT_EQ(late(directory_ / "c")->identity(), RegularFile::open(directory_ / "c").value()->identity());
  const std::shared_ptr<const RegularFile> file = late(directory_ / "c");
  EXPECT_EQ(file->file_system(), RegularFile::open(directory_ / "c").value()->file_system());
  EXPECT_EQ(open(), 1U);
  EXPECT_EQ(late(directory_ / "none")->identity(), FileIdentity());
}

TEST_F(LateFile, ReportsErrorsWithoutPath) {
  const std::shared_ptr<const RegularFile> file = late(directory_ / "c");
  Error error = error_of(file->lease());
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.os_error, ENOENT);
  EXPECT_EQ(error.path, "");
  EXPECT_EQ(error.message, "cannot open: no such file or directory");
  put(directory_ / "c", "ccccc");
  error = error_of(file->lease());
  EXPECT_EQ(error.code, Errc::file_changed);
  EXPECT_EQ(error.path, "");
  EXPECT_EQ(error.message, "file has another size than its header says: it has 5 bytes, expected 4");
  EXPECT_EQ(error_of(late(directory_.path())->lease()).code, Errc::not_regular_file);
  EXPECT_EQ(error_of(late("/proc/self/status")->lease()).code, Errc::not_regular_file);
  EXPECT_EQ(error_of(RegularFile::open_later(std::string("a\0b", 3), 4, {pool_, 0})).code, Errc::invalid_argument);
  EXPECT_EQ(open(), 0U);
  put(directory_ / "c", "cccc");
  EXPECT_EQ(read(*file), "cccc");
}

TEST_F(LateFile, IsTheSameFileFromThenOn) {
  put(directory_ / "c", "cccc");
  put(directory_ / "d", "dddd");
  const std::shared_ptr<const RegularFile> file = late(directory_ / "c");
  const std::shared_ptr<const RegularFile> other = RegularFile::open_later(directory_ / "d", 4, {pool_, 1}).value();
  EXPECT_EQ(read(*file), "cccc");
  EXPECT_EQ(read(*other), "dddd");  // the pool holds one file open
  put(directory_ / "new", "cccc");
  ASSERT_EQ(::rename((directory_ / "new").c_str(), (directory_ / "c").c_str()), 0);
  EXPECT_EQ(error_of(file->lease()).message, "file was replaced: its path leads to another file than the one opened");
}

TEST_F(LateFile, OpensInForkedChild) {
  put(directory_ / "c", "cccc");
  const std::shared_ptr<const RegularFile> file = late(directory_ / "c");
  EXPECT_EQ(in_child([&] { return read(*file) == "cccc" && open() == 1; }), 0);
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(read(*file), "cccc");
  EXPECT_EQ(in_child([&] { return read(*file) == "cccc" && open() == 1; }), 0);
}

TEST_F(LateFile, OpensInManyThreads) {
  put(directory_ / "c", "cccc");
  for (int round = 0; round < 50; ++round) {
    const std::shared_ptr<const RegularFile> file = late(directory_ / "c");
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        if (read(*file) != "cccc" || file->identity().size != 4) ++wrong;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(open(), 1U);
  }
}

}  // namespace
}  // namespace safetensors::os
