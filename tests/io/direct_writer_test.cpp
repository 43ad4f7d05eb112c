// Direct writes: the bytes are right for every size and offset, and after every refusal of the system.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/file_writer.h"
#include "os/descriptor.h"
#include "os/memory.h"
#include "os/regular_file.h"
#include "support/atomic_file_support.h"
#include "support/emulation.h"
#include "support/io_faults.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

using io::kDirectChunk;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class DirectWrite : public Supervised<AtomicFileTest> {
 protected:
  void SetUp() override {
    if (!AtomicFile::create(path, kMiB, {}).value()->file().direct())
      GTEST_SKIP() << "the temporary directory's file system does not write past the page cache";
  }

  // The pieces of text, each by one of three threads, from memory at any address.
  Status write_in_pieces(const std::string& text, std::vector<std::size_t> cuts,
                         const AtomicFileOptions& options = {}) {
    auto file = AtomicFile::create(path, text.size(), options);
    if (!file) return file.error();
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    Status result;
    const auto work = [&] {
      for (std::size_t i = next++; i + 1 < cuts.size(); i = next++) {
        const auto piece = bytes_of(text).subspan(cuts[i], cuts[i + 1] - cuts[i]);
        if (Status status = (*file)->file().write_at(cuts[i], piece); !status) {
          const std::lock_guard lock(mutex);
          result = status;
        }
      }
    };
    std::thread second(work), third(work);
    work();
    second.join(), third.join();
    return result ? (*file)->commit() : result;
  }
  Status write_in_random_pieces(const std::string& text, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::size_t> cuts{0, text.size()};
    for (int i = 0; i < 12; ++i) cuts.push_back(random() % text.size());
    std::sort(cuts.begin(), cuts.end());
    return write_in_pieces(text, cuts);
  }
};

TEST_F(DirectWrite, NeedsLargeDurableFile) {
  supervised([&] {
    const std::string text = noise(kMiB);
    ASSERT_TRUE(succeeds(replace(path, text, {.durability = Durability::none})));
    ASSERT_TRUE(succeeds(replace(path, text.substr(1), {.durability = Durability::full})));
    EXPECT_EQ(system.direct_writes, 0);
    EXPECT_EQ(system.opened, 2);
    for (const Durability durability : {Durability::file, Durability::full}) {
      system.direct_writes = 0;
      ASSERT_TRUE(succeeds(replace(path, text, {.durability = durability})));
      EXPECT_EQ(system.direct_writes, 1);
      EXPECT_TRUE(contents(path) == text);
    }
    // Bytes that never were in the page cache need no early writeback.
    ASSERT_TRUE(succeeds(replace(path, noise(64 * kMiB), {.durability = Durability::full})));
    EXPECT_GT(system.direct_writes, 1);
    EXPECT_EQ(system.writebacks, 0);
  });
}

// The bytes before and after the range must keep their values.
TEST_F(DirectWrite, KeepsOtherBytesOfBlocks) {
  const bool counts = counted([&] {
    const std::string text = noise(64 << 10);
    const std::string before(64 << 10, '#');
    put(path, before);
    io::FileWriter file(Durability::file, path);
    file.adopt(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    file.open_direct(AT_FDCWD, path.c_str());
    ASSERT_TRUE(file.direct());
    for (std::size_t i = 0; i < 4096; ++i) {
      // The factors are odd, so each remainder occurs once.
      const std::size_t offset = i * 2741 % 4096 + i % 3 * 4096;
      const std::size_t size = i * 1237 % 4096 + i % 5 * 4096;
      ASSERT_TRUE(succeeds(file.write_chunk(offset, bytes_of(text).subspan(i, size))));
      const std::size_t begin = offset < 4096 ? 0 : offset - 4096;
      std::string found(offset - begin + size + 4096, '\0');
      ASSERT_EQ(::pread(file.descriptor(), found.data(), found.size(), static_cast<off_t>(begin)),
                static_cast<ssize_t>(found.size()));
      std::string expected(found.size(), '#');
      expected.replace(offset - begin, size, text, i, size);
      ASSERT_TRUE(found == expected) << "offset " << offset << ", size " << size;
      ASSERT_EQ(::pwrite(file.descriptor(), before.data(), found.size(), static_cast<off_t>(begin)),
                static_cast<ssize_t>(found.size()));
    }
  });
  if (counts) {
    EXPECT_GT(system.direct_writes, 2500);
  }
}

TEST_F(DirectWrite, AcceptsPiecesFromSeveralThreads) {
  const bool counts = counted([&] {
    for (unsigned seed = 0; seed < 12; ++seed) {
      const std::string text = noise(9 * kMiB + seed * 1361);
      ASSERT_TRUE(succeeds(write_in_random_pieces(text, seed)));
      ASSERT_TRUE(contents(path) == text) << seed;
    }
  });
  if (counts) {
    EXPECT_GT(system.direct_writes, 12);
  }
}

TEST_F(DirectWrite, FallsBackToPageCache) {
  supervised([&] {
    const std::string text = noise(7 * kMiB + 4321);
    const std::pair<const char*, std::function<void()>> refusals[] = {
        {"opening", [&] { system.direct_open_errno = EINVAL; }},
        {"opening, for want of descriptors", [&] { system.direct_open_errno = EMFILE; }},
        {"statx", [&] { system.alignment_errno = ENOSYS; }},
        {"no alignment known", [&] { system.alignment = ToldAlignment{}; }},
        {"not on this file", [&] { system.alignment = ToldAlignment{.known = true}; }},
        {"an alignment that is none",
         [&] {
           system.alignment = ToldAlignment{true, 3, 512};
         }},
        {"an alignment beyond all buffers",
         [&] {
           system.alignment = ToldAlignment{true, 512, 4U << 20};
         }},
        {"a large alignment",
         [&] {
           system.alignment = ToldAlignment{true, 65536, 4096};
         }},
        {"the first write", [&] { system.direct_write_errno = EINVAL; }},
        {"writes", [&] { system.direct_write_errno = EOPNOTSUPP; }},
        {"memory", [&] { system.direct_write_errno = EFAULT; }},
        {"the third write", [&] { system.direct_write_errno = EINVAL, system.direct_writes_before_failure = 2; }},
        {"a whole write, in time", [&] { system.interruptions = 5; }},
        {"more than some blocks", [&] { system.longest_direct_report = 3 * 4096; }},
        {"more than a part of a block", [&] { system.longest_direct_report = 5000; }},
        {"even one byte", [&] { system.longest_direct_report = 0; }},
        {"large writes", [&] { system.longest_write = 8192; }},
        {"aligned writes", [&] { system.longest_write = 100'000; }},
    };
    for (const auto& [name, refuse] : refusals) {
      SCOPED_TRACE(name);
      system.direct_open_errno = system.direct_write_errno = system.alignment_errno = system.interruptions = 0;
      system.alignment.reset();
      system.longest_write = system.longest_direct_report = ~std::size_t{0};
      refuse();
      ASSERT_TRUE(succeeds(write_in_random_pieces(text, 5)));
      ASSERT_TRUE(contents(path) == text);
      EXPECT_EQ(directory.names(), Names{"model"});
    }
  });
}

TEST_F(DirectWrite, StopsAfterRefusal) {
  supervised([&] {
    const std::string text = noise(kDirectChunk * 8);
    system.direct_write_errno = EINVAL;
    std::vector<std::size_t> cuts;
    for (std::size_t at = 0; at <= text.size(); at += kMiB) cuts.push_back(at);
    ASSERT_TRUE(succeeds(write_in_pieces(text, cuts)));
    EXPECT_LE(system.direct_writes, 3);  // one of each thread
    EXPECT_TRUE(contents(path) == text);
  });
}

TEST_F(DirectWrite, NamesOffsetOfDiskError) {
  supervised([&] {
    put(path, "old");
    const ino_t inode = inode_of(path);
    const std::string text = noise(kDirectChunk);
    for (const auto& [number, said] :
         {std::pair(ENOSPC, "no space left on device"), std::pair(EIO, "input/output error"),
          std::pair(EDQUOT, "disk quota exceeded")}) {
      system.direct_write_errno = number;
      const Error error = error_of(write_in_pieces(text, {0, 100, text.size()}));
      EXPECT_EQ(error.code, Errc::write_failed);
      EXPECT_EQ(error.os_error, number);
      EXPECT_EQ(error.offset, 4096u);
      EXPECT_EQ(error.message, std::string("cannot write 2093056 bytes at byte 4096: ") + said);
      EXPECT_EQ(error.path, path);
      expect_untouched(inode);
    }
  });
}

TEST_F(DirectWrite, ReplacesReadOnlyFile) {
  supervised([&] {
    put(path, "old");
    ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
    ASSERT_TRUE(succeeds(replace(path, noise(kMiB))));
    EXPECT_GT(system.direct_writes, 0);
    EXPECT_EQ(mode_of(path), mode_t{0444});
  });
}

// Aligned memory is written from where it is, so only the number of helpers bounds the threads.
TEST_F(DirectWrite, SharesThreeThreadsAmongCalls) {
  constexpr std::size_t kPart = 16 * kMiB;
  const bool counts = counted([&] {
    const auto memory = os::allocate(kPart).value();
    std::memset(memory.get(), 'x', kPart);
    auto file = AtomicFile::create(path, 4 * kPart, {}).value();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] { EXPECT_TRUE(succeeds(file->file().write_at(i * kPart, {memory.get(), kPart}))); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(succeeds(file->commit()));
    EXPECT_TRUE(contents(path) == std::string(4 * kPart, 'x'));
  });
  if (counts) {
    EXPECT_LE(system.most_at_once, 4 + 3);
    EXPECT_GE(system.most_at_once, 1);
  }
}

TEST_F(DirectWrite, CopiesAnyRangeToAnyOffset) {
  const bool counts = counted([&] {
    const std::string text = noise(6 * kMiB + 77);
    put(directory / "source", text);
    const auto source = os::RegularFile::open(directory / "source").value();
    for (const auto& [from, to] :
         {std::pair<std::size_t, std::size_t>{0, 0}, {1, 0}, {0, 9}, {4096, 8192}, {33, 4097}}) {
      const std::size_t size = 5 * kMiB + from;
      auto file = AtomicFile::create(path, to + size, {}).value();
      ASSERT_TRUE(succeeds(file->file().write_at(0, bytes_of(std::string(to, 'x')))));
      ASSERT_TRUE(succeeds(file->file().copy_at(to, *source, from, size)));
      ASSERT_TRUE(succeeds(file->commit()));
      EXPECT_TRUE(contents(path) == std::string(to, 'x') + text.substr(from, size));
    }
  });
  if (counts) {
    EXPECT_GT(system.direct_writes, 10);
  }
}

TEST_F(DirectWrite, CopiesAgainAfterTruncation) {
  supervised([&] {
    const std::string text = noise(6 * kMiB);
    put(directory / "source", text.substr(0, 3 * kMiB));
    const auto source = os::RegularFile::open(directory / "source").value();
    auto file = AtomicFile::create(path, text.size(), {}).value();
    const Error error = error_of(file->file().copy_at(0, *source, 0, text.size()));
    EXPECT_EQ(error.code, Errc::file_truncated);
    EXPECT_EQ(error.offset, 3 * kMiB);
    put(directory / "source", text);
    ASSERT_TRUE(succeeds(file->file().copy_at(0, *source, 0, text.size())));
    ASSERT_TRUE(succeeds(file->commit()));
    EXPECT_TRUE(contents(path) == text);
  });
}

// With write_in_random_pieces, whatever file system dir is on.
class OtherFileSystems : public DirectWrite {
 protected:
  void SetUp() override {}
  void write_sizes(const std::string& target) {
    for (const std::size_t size : {kMiB, kMiB + 1, 3 * kMiB + 4095, 4 * kMiB + 513}) {
      const std::string text = noise(size);
      ASSERT_TRUE(succeeds(replace(target, text)));
      ASSERT_TRUE(contents(target) == text);
    }
  }
};

TEST_F(OtherFileSystems, SkipDirectWritesOnTmpfs) {
  supervised([&] {
    struct statfs status;
    if (::statfs("/dev/shm", &status) != 0 || static_cast<std::uint32_t>(status.f_type) != 0x01021994)
      GTEST_SKIP() << "no tmpfs at /dev/shm";
    std::string name = "/dev/shm/safetensors-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) GTEST_SKIP() << "/dev/shm cannot be written to";
    write_sizes(name + "/model");
    EXPECT_EQ(system.direct_writes, 0);
    std::filesystem::remove_all(name);
  });
}

// The shell is a process of its own, which nobody supervises.
TEST_F(OtherFileSystems, ServeSmallBlocksAndFullDisk) {
  const std::string image = directory / "image", mount_point = directory / "mounted";
  put(image, "");
  ASSERT_EQ(::truncate(image.c_str(), 24 << 20), 0);
  ASSERT_EQ(::mkdir(mount_point.c_str(), 0755), 0);
  const std::string commands = "{ mkfs.ext4 -q -b 1024 '" + image + "' && mount -o loop '" + image + "' '" +
                               mount_point + "'; } >'" + (directory / "said") + "' 2>&1";
  if (::geteuid() != 0 || std::system(commands.c_str()) != 0)  // NOLINT(cert-env33-c): a test's own commands
    GTEST_SKIP() << "mounting an ext4 image needs root and mkfs.ext4";
  const std::string target = mount_point + "/model";
  supervised([&] {
    write_sizes(target);
    if (!denies_direct_io(os::Descriptor(::open(target.c_str(), O_RDONLY | O_CLOEXEC)).get())) {
      EXPECT_GT(system.direct_writes, 0);
    }
    put(target, "old");
    const Error error = error_of(replace(target, std::string(30 * kMiB, 'x')));
    EXPECT_EQ(error.code, Errc::write_failed);
    EXPECT_EQ(error.os_error, ENOSPC);
    system.preallocate_errno = EOPNOTSUPP;  // now only the writes find out
    EXPECT_EQ(error_of(replace(target, std::string(30 * kMiB, 'x'))).os_error, ENOSPC);
    EXPECT_EQ(contents(target), "old");
  });
  EXPECT_EQ(::umount2(mount_point.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace safetensors::test
