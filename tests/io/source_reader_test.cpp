// Direct reads of a SourceReader, with system calls that fail as the test chooses. Also the limit of files
// that stay open for direct reads.
#include "io/source_reader.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <random>
#include <string>

#include "support/io_faults.h"
#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace safetensors::io {
namespace {

using test::pattern;
using test::put;
using test::succeeds;
using test::TemporaryDirectory;

// Drops O_DIRECT, so that the tests run on every file system. Reads fail or are short as the members say.
class FakeDirect {
 public:
  int open_errno = 0;
  bool opens_plain = false;  // whether files may be opened without O_DIRECT, instead of with it
  int interruptions = 0;     // count of calls that first fail with EINTR: opens, and reads of any kind
  int read_errno = 0;        // error of the read with the index reads_before
  int reads_before = 0;
  std::size_t max_bytes = ~std::size_t{0};  // maximum bytes per read
  test::ToldAlignment alignment{.known = true, .memory = 512, .offset = 512};
  bool misaligned = false;  // whether a read broke the alignment of the device
  int opens = 0;            // of an open file
  int reads = 0;
  std::uint64_t delivered = 0;  // bytes

  std::optional<long> answer(const seccomp_data& call) {
    const int descriptor = test::descriptor_of(call.args[0]);
    if (test::asks_alignment(call)) return test::tell(alignment, call);
    if (call.nr == SYS_openat && test::text_of(call.args[1]).starts_with("/proc/self/fd/"))
      return open(test::text_of(call.args[1]).data(), static_cast<int>(call.args[2]));
    bool* const direct = descriptor < 0 ? nullptr : &direct_.at(static_cast<std::size_t>(descriptor) % direct_.size());
    if (call.nr == SYS_close && direct != nullptr) *direct = false;
    if (call.nr != SYS_pread64) return std::nullopt;
    if (interruptions > 0) return --interruptions, -EINTR;
    if (direct == nullptr || !*direct) return std::nullopt;
    return read(descriptor, test::pointer_of(call.args[1]), call.args[2], static_cast<off_t>(call.args[3]));
  }

 private:
  long open(const char* name, int flags) {
    const bool direct = (flags & O_DIRECT) != 0;
    if (interruptions > 0) return --interruptions, -EINTR;
    ++opens;
    if (opens_plain == direct) return -EBADF;
    if (open_errno != 0) return -open_errno;
    const int opened = ::open(name, flags & ~O_DIRECT);
    if (direct && opened >= 0) direct_.at(static_cast<std::size_t>(opened)) = true;
    return opened < 0 ? -errno : opened;
  }
  long read(int descriptor, void* bytes, std::size_t size, off_t offset) {
    const std::size_t memory = alignment.known ? alignment.memory : 4096;
    const std::size_t block = alignment.known ? alignment.offset : 4096;
    misaligned = misaligned || reinterpret_cast<std::uintptr_t>(bytes) % memory != 0 ||
                 static_cast<std::size_t>(offset) % block != 0 || size % block != 0;
    if (reads++ == reads_before && read_errno != 0) return -read_errno;
    const ssize_t count = ::pread(descriptor, bytes, std::min(size, max_bytes), offset);
    delivered += count > 0 ? static_cast<std::uint64_t>(count) : 0;
    return count < 0 ? -errno : count;
  }

  std::array<bool, 4096> direct_{};  // descriptors that were asked for with O_DIRECT
};

class DirectRead : public test::Supervised<testing::Test, FakeDirect> {
 protected:
  static constexpr std::size_t kSize = (3 << 20) + 123;
  static constexpr std::size_t kMinDirect = 64 << 10;  // minimum bytes of a direct read

  void SetUp() override {
    put(path, bytes);
    Result<std::shared_ptr<const os::RegularFile>> opened = os::RegularFile::open(path);
    ASSERT_TRUE(succeeds(opened));
    file = *std::move(opened);
    if (file->file_system() == os::FileSystem::remote) GTEST_SKIP() << "files on a network are not read directly";
  }
  [[nodiscard]] SourceReader make_reader() {
    thread = ReaderThread();  // a thread knows a reader by its address
    return SourceReader(*file, {.size = kSize, .assume_uncached = true});
  }
  // Reads into memory `shift` bytes after a multiple of 4096. The memory around must keep its bytes.
  Status read(const SourceReader& reader, std::uint64_t offset, std::size_t size, std::size_t shift) {
    memory.assign(size + 3 * 4096, 'x');
    const std::size_t start = 4096 - reinterpret_cast<std::uintptr_t>(memory.data()) % 4096 + shift;
    got = std::string_view(memory).substr(start, size);
    Status status = reader.read(offset, {reinterpret_cast<std::byte*>(memory.data()) + start, size}, thread);
    EXPECT_GE(memory.find_first_not_of('x'), start);
    EXPECT_EQ(memory.find_first_not_of('x', start + size), std::string::npos);
    return status;
  }
  void expect_bytes(const SourceReader& reader, std::uint64_t offset, std::size_t size, std::size_t shift) {
    ASSERT_TRUE(succeeds(read(reader, offset, size, shift)));
    ASSERT_TRUE(got == std::string_view(bytes).substr(static_cast<std::size_t>(offset), size))
        << size << " bytes at " << offset << ", shift " << shift;
  }

  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  const std::string bytes = pattern(kSize);
  std::shared_ptr<const os::RegularFile> file;
  ReaderThread thread;
  ReadCounts& counts = thread.counts;
  std::string memory;
  std::string_view got;
};

TEST_F(DirectRead, GivesBytesOfAnyRange) {
  supervised([&] {
    std::mt19937 random(7);
    for (const std::uint32_t alignment : {512U, 4096U, 0U}) {
      system.alignment = {.known = alignment != 0, .memory = alignment, .offset = alignment};
      const SourceReader reader = make_reader();
      for (int i = 0; i < 200; ++i) {
        const std::size_t offset =
            random() % 3 == 0 ? random() % (kSize - kMinDirect) : random() % 600 * 4096 + random() % 3;
        const std::size_t size = std::min(kSize - offset, kMinDirect + random() % 100'000);
        expect_bytes(reader, offset, size, random() % 2 == 0 ? 0 : random() % 4096);
      }
      expect_bytes(reader, 0, kSize, 0);
      expect_bytes(reader, 1, kSize - 1, 1);
    }
    EXPECT_FALSE(system.misaligned);
    EXPECT_EQ(counts.buffered, 0U);
    EXPECT_EQ(system.opens, 3);
  });
}

TEST_F(DirectRead, ContinuesPartialReads) {
  supervised([&] {
    for (const std::size_t max_bytes :
         {std::size_t{512}, std::size_t{4096}, std::size_t{100'000}, std::size_t{1} << 20}) {
      system.max_bytes = max_bytes;
      system.interruptions = 5;
      const SourceReader reader = make_reader();
      expect_bytes(reader, 777, 300'000, 5);
      expect_bytes(reader, 4096, 300'000, 0);
      EXPECT_EQ(system.interruptions, 0);
    }
    EXPECT_FALSE(system.misaligned);
  });
}

// Heads, tails and bounced reads are whole blocks. Partial reads are read again from the last whole block on.
TEST_F(DirectRead, CountsDeliveredBytes) {
  if (!test::kAlignmentIsTold) GTEST_SKIP() << "the headers of this system lack STATX_DIOALIGN, as those of musl do";
  supervised([&] {
    for (const std::size_t max_bytes : {std::size_t{700}, std::size_t{5000}, ~std::size_t{0}}) {
      for (const std::size_t shift : {std::size_t{0}, std::size_t{5}}) {
        system.max_bytes = max_bytes;
        system.delivered = 0;
        counts = {};
        const SourceReader reader = make_reader();
        expect_bytes(reader, 777, 300'000, shift);
        expect_bytes(reader, kSize - 100'000, 100'000, shift);
        EXPECT_EQ(counts.direct, system.delivered);
        EXPECT_EQ(counts.buffered, 0U);
        EXPECT_GT(counts.direct, 400'000U);
      }
    }
  });
}

// After a read of less than a block, the rest is not aligned: it is read through the page cache.
TEST_F(DirectRead, ContinuesInCacheAfterPartialBlock) {
  supervised([&] {
    system.max_bytes = 511;
    const SourceReader reader = make_reader();
    expect_bytes(reader, 4096, 300'000, 0);
    EXPECT_EQ(counts.buffered, 300'000U);
  });
}

TEST_F(DirectRead, FallsBackToCacheIfRefused) {
  supervised([&] {
    for (const int error_number : {EINVAL, EOPNOTSUPP}) {
      for (const int before : {0, 1, 2}) {
        system.reads = 0;
        system.read_errno = error_number;
        system.reads_before = before;
        system.max_bytes = 128 << 10;
        counts = {};
        const SourceReader reader = make_reader();
        expect_bytes(reader, 100, 1 << 20, 0);
        EXPECT_EQ(reader.direct_refused(), error_number);
        EXPECT_GT(counts.buffered, 0U);
        const int reads = system.reads;
        expect_bytes(reader, 8192, 200'000, 0);
        EXPECT_EQ(system.reads, reads);
      }
    }
  });
}

TEST_F(DirectRead, ReportsErrorOfDevice) {
  supervised([&] {
    for (const int before : {0, 1, 2}) {
      system.reads = 0;
      system.read_errno = EIO;
      system.reads_before = before;
      system.max_bytes = 128 << 10;
      const Status status = read(make_reader(), 8192, 1 << 20, 0);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Errc::read_failed);
      EXPECT_EQ(status.error().os_error, EIO);
      const std::uint64_t offset = 8192U + static_cast<unsigned>(before) * (128 << 10);
      EXPECT_EQ(status.error().offset, offset);
      const std::string tail = " at byte " + std::to_string(offset) + ": input/output error";
      EXPECT_TRUE(status.error().message.ends_with(tail)) << status.error().message;
    }
  });
}

TEST_F(DirectRead, FallsBackToCacheIfOpenFails) {
  supervised([&] {
    for (const int error_number : {EINVAL, EMFILE, EPERM}) {
      system.open_errno = error_number;
      counts = {};
      const SourceReader reader = make_reader();
      expect_bytes(reader, 5, 100'000, 0);
      system.interruptions = 5;
      expect_bytes(reader, 100'005, 100'000, 0);
      EXPECT_EQ(system.interruptions, 0);
      EXPECT_EQ(reader.direct_refused(), error_number);
      EXPECT_EQ(counts.buffered, 200'000U);
      EXPECT_EQ(counts.direct, 0U);
    }
  });
}

TEST_F(DirectRead, IsSkippedIfNoBlockFits) {
  if (!test::kAlignmentIsTold) GTEST_SKIP() << "the headers of this system lack STATX_DIOALIGN, as those of musl do";
  supervised([&] {
    for (const std::uint32_t alignment : {0U, 8192U}) {
      system.alignment = {.known = true, .memory = 512, .offset = alignment};
      const SourceReader reader = make_reader();
      expect_bytes(reader, 5, 100'000, 0);
      EXPECT_EQ(reader.direct_refused(), EOPNOTSUPP);
      EXPECT_EQ(reader.direct_alignment(), 1U);
    }
    EXPECT_EQ(system.opens, 0);
  });
}

// A file that is not cached and large enough for descriptors of single threads.
class FillingRead : public DirectRead {
 protected:
  static constexpr std::uint64_t kLarge = std::uint64_t{17} << 20;

  void SetUp() override {
    DirectRead::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(::truncate(path.c_str(), kLarge), 0);
    system.opens_plain = true;
  }
  // assume_uncached: it waits for the device whatever the page cache has.
  void make(bool in_runs, bool sparse = false) {
    const Transfer transfer{.size = kLarge, .in_runs = in_runs, .sparse = sparse, .assume_uncached = true};
    reader.emplace(*file, transfer);
    reader->fill_cache();
  }
  std::optional<SourceReader> reader;
};

TEST_F(FillingRead, OpensFileOncePerThread) {
  supervised([&] {
    make(true);
    EXPECT_TRUE(reader->reads_ahead());
    EXPECT_EQ(reader->chunk_bytes(), std::size_t{1} << 20);
    for (int threads = 1; threads <= 3; ++threads) {
      thread = {};
      for (const std::uint64_t offset : {0U, 1'000'001U, 2'000'000U}) expect_bytes(*reader, offset, 1'000'000, 3);
      EXPECT_EQ(system.opens, threads);
    }
    EXPECT_EQ(counts.buffered, 3'000'000U);  // of the last thread
    EXPECT_EQ(counts.direct, 0U);
  });
}

// The system then reads no gaps. Only the bytes from the device show this, and they depend on the page cache.
TEST_F(FillingRead, ReadsSparseRanges) {
  supervised([&] {
    make(true, true);
    for (const std::uint64_t offset : {1'000'001U, 0U, 2'000'000U}) expect_bytes(*reader, offset, 1'000'000, 1);
    EXPECT_EQ(counts.buffered, 3'000'000U);
  });
}

TEST_F(FillingRead, OpensFileAtMost32Times) {
  supervised([&] {
    make(true);
    for (int i = 0; i < 100; ++i) {
      thread = {};
      expect_bytes(*reader, 7, 5000, 0);
    }
    EXPECT_EQ(system.opens, 32);
  });
}

TEST_F(FillingRead, UsesDescriptorOfAllThreadsIfOpenFails) {
  supervised([&] {
    system.open_errno = EMFILE;
    make(true);
    expect_bytes(*reader, 5, 1'000'000, 0);
    expect_bytes(*reader, 1'000'005, 1'000'000, 0);
    EXPECT_EQ(system.opens, 1);
  });
}

TEST_F(FillingRead, OpensNothingWithoutRuns) {
  supervised([&] {
    make(false);
    EXPECT_FALSE(reader->reads_ahead());
    EXPECT_EQ(reader->chunk_bytes(), std::size_t{1} << 20);
    expect_bytes(*reader, 5, 1'000'000, 0);
    EXPECT_EQ(system.opens, 0);
  });
}

// The report names a fallback only if direct reads were requested.
TEST_F(FillingRead, ForgetsThatDirectReadsWereRefused) {
  supervised([&] {
    system.alignment = {.known = true, .memory = 512, .offset = 0};
    make(true);
    EXPECT_EQ(reader->direct_refused(), 0);
    expect_bytes(*reader, 5, 1'000'000, 0);
  });
}

TEST_F(DirectRead, DetectsShorterFileAndCountsBytesBefore) {
  supervised([&] {
    ASSERT_EQ(::truncate(path.c_str(), 1'000'000), 0);
    for (const int error_number : {0, EINVAL}) {
      system.open_errno = error_number;
      const Status status = read(make_reader(), 900'000, 200'000, 0);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Errc::file_truncated);
      EXPECT_EQ(status.error().offset, 1'000'000U);
      EXPECT_EQ(counts.buffered, error_number == 0 ? 0U : 100'000U);
    }
  });
}

int open_descriptors() {
  int count = 0;
  DIR* const list = ::opendir("/proc/self/fd");
  while (::readdir(list) != nullptr) ++count;
  ::closedir(list);
  return count;
}

TEST_F(DirectRead, KeepsOneDescriptorPerThread) {
  supervised([&] {
    const int before = open_descriptors();
    {
      const SourceReader reader = make_reader();
      const SourceReader other(*file, {.size = kSize, .assume_uncached = true});
      for (const SourceReader* each : {&reader, &other, &reader}) {
        expect_bytes(*each, 0, 100'000, 0);
        EXPECT_EQ(open_descriptors(), before + 1);
      }
      EXPECT_EQ(system.opens, 3);
    }
    thread = ReaderThread();
    EXPECT_EQ(open_descriptors(), before);
  });
}

constexpr std::size_t kTensorBytes = 128 << 10;

// The stream takes one row of every file, then the next row of every file. So all files are begun before one ends.
TEST(StreamOfManyFiles, KeepsFewFilesOpen) {
  constexpr int kFiles = 60;
  const TemporaryDirectory directory;
  std::vector<File> files;
  ReadPlan plan;
  for (int i = 0; i < kFiles; ++i) {
    const std::string path = directory / ("s" + std::to_string(i));
    put(path, test::one_tensor("U8", "[2,131072]", 2 * kTensorBytes));
    Result<File> file = File::open(path);
    ASSERT_TRUE(succeeds(file));
    files.push_back(*std::move(file));
  }
  for (std::int64_t row = 0; row < 2; ++row)
    for (const File& file : files)
      ASSERT_TRUE(succeeds(plan.add(test::tensor(file, "t"), Slice{DimSlice::range(row, row + 1)})));
  const int before = open_descriptors();
  int max_open = 0;
  const test::AssumeUncached uncached;
  Result<Stream> stream = plan.stream({.threads = 2, .cache = Cache::keep});
  ASSERT_TRUE(succeeds(stream));
  const std::string expected = pattern(2 * kTensorBytes);
  for (int i = 0; i < 2 * kFiles; ++i) {
    Result<std::optional<StreamItem>> item = stream->next();
    ASSERT_TRUE(succeeds(item));
    ASSERT_TRUE(item->has_value());
    max_open = std::max(max_open, open_descriptors());
    const std::span<const std::byte> bytes = (*item)->array.bytes();
    ASSERT_EQ(bytes.size(), kTensorBytes);
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data() + (*item)->index / kFiles * kTensorBytes, kTensorBytes), 0);
  }
  if (const Result<ReadReport> report = stream->report(); !report || report->bytes_direct == 0)
    GTEST_SKIP() << "this file system has no direct reads";
  EXPECT_LE(max_open, before + 20);
}

// The Source of an open File may be the Source of another File.
TEST(SourceOfFile, IsReadPastCacheToo) {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  put(path, test::one_tensor("U8", "[262144]", 2 * kTensorBytes));
  Result<File> opened = File::open(path);
  ASSERT_TRUE(succeeds(opened));
  const auto kept = std::make_shared<File>(*std::move(opened));
  Result<File> again = File::from_source(std::shared_ptr<const Source>(kept, &kept->source()));
  ASSERT_TRUE(succeeds(again));
  for (const bool uncached : {false, true}) {
    const auto empty = uncached ? std::make_unique<test::AssumeUncached>() : nullptr;
    ReadPlan plan;
    ASSERT_TRUE(succeeds(plan.add(test::tensor(*again, "t"))));
    const Result<ReadResult> result = plan.execute({.cache = Cache::keep});
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(result->report.bytes_direct != 0 || !uncached || !test::reads_directly(path));
    EXPECT_EQ(std::memcmp(result->arrays[0].bytes().data(), pattern(2 * kTensorBytes).data(), 2 * kTensorBytes), 0);
  }
}

}  // namespace
}  // namespace safetensors::io
